"""Compiled functions that other compiled functions call: linked into their callers, with no machine code of their own.

numba optimises every function together with all that it calls, and writes machine code and a wrapper for calls from
Python for each of them, though a kernel reaches its parts by its own copy alone. Half of the time to compile the search
went to code that nothing runs (44 s where this takes 20).

Such a function may raise an exception of constants, but neither print nor raise one with values, which need an object
of numba's that only machine code of its own has. Two of them cannot call each other.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numba

CPUDispatcher: Any = object
Compiler: Any = None
functions: Any = None
try:  # numba's own modules, which another version may have elsewhere
    from numba.core.codegen import JITCodeLibrary
    from numba.core.compiler import CompilerBase, DefaultPassBuilder, PassManager, _LowerResult
    from numba.core.compiler_machinery import register_pass
    from numba.core.registry import CPUDispatcher
    from numba.core.typed_passes import NativeLowering

    functions = import_module("numba._dynfunc")
except ImportError:
    pass
else:

    class _LinkedLibrary(JITCodeLibrary):
        """The code of a function as it is before optimisation, for callers to link and to optimise with theirs."""

        def _optimize_final_module(self) -> None:
            pass

        def _finalize_final_module(self) -> None:
            self._finalize_dynamic_globals()
            self._finalized = True

    @register_pass(mutates_CFG=True, analysis_only=False)
    class _LinkedLowering(NativeLowering):
        """numba's lowering into such a library."""

        _name = "harken_linked_lowering"

        def run_pass(self, state: Any) -> bool:
            context, flags = state.targetctx, state.flags
            library = state.library = _LinkedLibrary(context.codegen(), state.func_id.func_qualname)
            flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
            super().run_pass(state)
            lowered = state["cr"]
            description = lowered.fndesc
            # numba finds a function by an object of this type; `_Linked.__call__` is in front of its missing code
            name = description.qualname.rpartition(".")[2]
            function = functions.make_function(description.lookup_module(), name, "", 0, lowered.env, (library,))
            context.insert_user_function(function, description, [library])
            state["cr"] = _LowerResult(description, lowered.call_helper, cfunc=function, env=lowered.env)
            return True

    class Compiler(CompilerBase):  # type: ignore[no-redef]
        """numba's compiler with that lowering."""

        def define_pipelines(self) -> list[Any]:
            steps = DefaultPassBuilder.define_nopython_pipeline(self.state).passes
            linked = PassManager("linked")
            linked.passes = [(_LinkedLowering if step is NativeLowering else step, name) for step, name in steps]
            linked.finalize()
            return [linked]


class _Linked(CPUDispatcher):
    """A function that only compiled code can reach; called from Python, it is compiled once more, with machine code."""

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        if not hasattr(self, "callable"):
            self.callable = numba.njit(**self.flags)(self.py_func)
        return self.callable(*arguments, **named)


def linked_njit(**flags: Any) -> Callable[[Callable[..., Any]], Any]:
    """numba's `njit` for a function that kernels call, with these flags."""

    def decorate(function: Callable[..., Any]) -> Any:
        if Compiler is None:
            return numba.njit(**flags)(function)
        dispatcher: Any = numba.njit(**flags, pipeline_class=Compiler)(function)
        if isinstance(dispatcher, CPUDispatcher):  # a plain function where NUMBA_DISABLE_JIT is set
            dispatcher.__class__, dispatcher.flags = _Linked, flags
        return dispatcher

    return decorate
