#pragma once

namespace starling {

// Scope guard that names what allocates on this thread, for the record of who holds the memory of a GPU. The name
// outlives the process's tensors: that of an op, or a literal. Without a guard it is "tensors".
class MemoryLabel {
 public:
  explicit MemoryLabel(const char* what);
  ~MemoryLabel();
  MemoryLabel(const MemoryLabel&) = delete;
  MemoryLabel& operator=(const MemoryLabel&) = delete;
  static const char* current();

 private:
  const char* before_;
};

}  // namespace starling
