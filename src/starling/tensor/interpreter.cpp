#include "starling/tensor/interpreter.h"

#include "starling/base/thread/thread_context.h"

namespace starling {

Interpreter& current_interpreter() {
  Interpreter* top = thread_context().interpreter;
  return top ? *top : eager_interpreter();
}

InterpreterScope::InterpreterScope(Interpreter& next) : before_(thread_context().interpreter) {
  thread_context().interpreter = &next;
}

InterpreterScope::~InterpreterScope() { thread_context().interpreter = before_; }

}  // namespace starling
