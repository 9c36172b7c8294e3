// Axes: linear and logarithmic scales with round ticks.
const finite = (values) => values.filter((value) => value !== null && Number.isFinite(value));

export function roundTicks(low, high, most = 6) {
  const rough = Math.max((high - low) / most, 1e-300), size = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * size).find((one) => one >= rough * 0.999);
  const ticks = [];
  for (let index = Math.ceil(low / step - 1e-9); index * step <= high + 1e-9 * step; index += 1) ticks.push(index * step);
  return ticks;
}

function logTicks(low, high, most = 6) {
  const first = Math.ceil(Math.log10(low) - 1e-9), last = Math.floor(Math.log10(high) + 1e-9);
  const every = Math.max(1, Math.ceil((last - first + 1) / most));
  const ticks = [];
  for (let power = first; power <= last; power += every) ticks.push(10 ** power);
  if (ticks.length > 2) return ticks;
  const finer = [];
  for (let power = first - 1; power <= last; power += 1) for (const digit of [1, 2, 5]) finer.push(digit * 10 ** power);
  const inside = finer.filter((one) => one >= low * 0.999 && one <= high * 1.001);
  return inside.length > 1 ? inside : roundTicks(low, high, most).filter((one) => one > 0);
}

const superscript = (power) => String(power).replace(/[-0-9]/g, (digit) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(digit)]);

export function tickText(value, log) {
  const power = Math.log10(Math.abs(value));
  if (log && Math.abs(power - Math.round(power)) < 1e-6 && Math.abs(power) > 3.5) return `10${superscript(Math.round(power))}`;
  if (Math.abs(value) >= 1e4) return value.toLocaleString("en", { notation: "compact" });
  return String(Number(value.toPrecision(5)));
}

// A scale from values to pixels; `limits` or the range of the values.
export function scale(values, { log = false, limits = null, from, to, most = 6, zero = false }) {
  const known = finite(values).filter((value) => !log || value > 0);
  let [low, high] = limits || [Math.min(...known), Math.max(...known)];
  if (!known.length && !limits) [low, high] = [log ? 0.1 : 0, 1];
  if (zero && !limits) low = Math.min(0, low);
  if (low === high) [low, high] = log ? [low / 2, high * 2] : [low - 0.5, high + 0.5];
  else if (!limits && !log) { const edge = 0.04 * (high - low); [low, high] = [zero && low === 0 ? 0 : low - edge, high + edge]; }
  const at = log ? (value) => Math.log(value) : (value) => value;
  const place = (value) => from + ((at(Math.max(value, log ? low * 1e-9 : -Infinity)) - at(low)) / (at(high) - at(low))) * (to - from);
  const inside = (value) => Math.min(Math.max(place(value), Math.min(from, to)), Math.max(from, to));
  return { place, inside, low, high, log, ticks: (log ? logTicks : roundTicks)(low, high, most), text: (value) => tickText(value, log) };
}
