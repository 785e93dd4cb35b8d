#include "foreign_lock.h"

#include "held.h"
#include "starling/base/thread/foreign_lock.h"

namespace starling::python {
namespace {

void* give_back() { return python_is_there() && PyGILState_Check() ? PyEval_SaveThread() : nullptr; }
void take_again(void* held) { PyEval_RestoreThread(static_cast<PyThreadState*>(held)); }

}  // namespace

void let_kernels_release_the_gil() { set_foreign_lock({&give_back, &take_again}); }

}  // namespace starling::python
