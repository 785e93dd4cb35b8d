#include "starling/tensor/memory_label.h"

namespace starling {
namespace {

constinit thread_local const char* current_label = "tensors";

}  // namespace

MemoryLabel::MemoryLabel(const char* what) : before_(current_label) { current_label = what; }
MemoryLabel::~MemoryLabel() { current_label = before_; }
const char* MemoryLabel::current() { return current_label; }

}  // namespace starling
