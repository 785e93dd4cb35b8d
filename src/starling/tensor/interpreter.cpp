#include "starling/tensor/interpreter.h"

namespace starling {
namespace {

thread_local Interpreter* top = nullptr;

}  // namespace

Interpreter& current_interpreter() { return top ? *top : eager_interpreter(); }

InterpreterScope::InterpreterScope(Interpreter& next) : before_(top) { top = &next; }

InterpreterScope::~InterpreterScope() { top = before_; }

}  // namespace starling
