# harken as a server, on a CPU:
#
#   docker build --tag harken .
#   harken serve --api-keys keys.json --new-key web && chmod a+r keys.json      (it has hashes of keys, no keys)
#   docker run --rm --read-only --tmpfs /tmp --cap-drop ALL --security-opt no-new-privileges -p 127.0.0.1:5000:5000 \
#     -v "$PWD/runs/demo:/models/demo:ro" -v "$PWD/keys.json:/keys/keys.json:ro" \
#     harken /models/demo --api-keys /keys/keys.json
#
# Without --api-keys the server does not start: others reach its address.
#
# torch from the default index contains CUDA, which is several gigabytes. For a small image, pass the index of PyTorch's
# CPU builds (named on its installation page): --build-arg TORCH_INDEX=URL
# Packages of an extra are added with PACKAGES, as in --build-arg PACKAGES="ray[serve,data]==2.60.0"

FROM python:3.11-slim AS build
ARG TORCH_INDEX=
ARG PACKAGES=
COPY requirements/run.txt /src/requirements/run.txt
RUN python -m venv /opt/harken \
 && torch="$(grep '^torch==' /src/requirements/run.txt)" \
 && /opt/harken/bin/pip install --no-cache-dir ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} "$torch" \
 && /opt/harken/bin/pip install --no-cache-dir --requirement /src/requirements/run.txt ${PACKAGES}
COPY pyproject.toml README.md LICENSE /src/
COPY src /src/src
COPY docs/learn /src/docs/learn
RUN /opt/harken/bin/pip install --no-cache-dir --no-deps --no-build-isolation /src
# Kernels for the processor of this machine; on another they are compiled when a server first needs them.
RUN NUMBA_CACHE_DIR=/opt/harken/share/harken/kernels /opt/harken/bin/harken warm

FROM python:3.11-slim
RUN useradd --system --uid 10001 --no-create-home harken && install --directory --owner=10001 /state
COPY --from=build /opt/harken /opt/harken
# The root may be read-only: compiled kernels and other caches go to /tmp, glossaries to the volume /state.
ENV PATH=/opt/harken/bin:$PATH PYTHONUNBUFFERED=1 NUMBA_CACHE_DIR=/tmp/numba MPLCONFIGDIR=/tmp/matplotlib
USER 10001
VOLUME /state
EXPOSE 5000
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
  CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:5000/health', timeout=4)"]
ENTRYPOINT ["harken", "serve", "--host", "0.0.0.0", "--port", "5000", "--state", "/state"]
