#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <new>
#include <span>
#include <utility>

namespace starling {

// Vector with inline storage for N elements: op calls pass their few operands without touching the heap.
template <class T, std::size_t N>
class SmallVector {
 public:
  SmallVector() = default;
  explicit SmallVector(std::size_t count) { resize(count); }
  SmallVector(std::initializer_list<T> items) : SmallVector(std::span<const T>(items.begin(), items.size())) {}
  explicit SmallVector(std::span<const T> items) {
    reserve(items.size());
    for (const auto& item : items) push_back(item);
  }
  SmallVector(const SmallVector& other) : SmallVector(std::span<const T>(other.data(), other.size())) {}
  SmallVector(SmallVector&& other) noexcept { take(other); }
  SmallVector& operator=(const SmallVector& other) {
    if (this != &other) *this = SmallVector(other);
    return *this;
  }
  SmallVector& operator=(SmallVector&& other) noexcept {
    if (this == &other) return *this;
    destroy();
    take(other);
    return *this;
  }
  ~SmallVector() { destroy(); }

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* data() { return data_; }
  const T* data() const { return data_; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  T& operator[](std::size_t i) { return data_[i]; }
  const T& operator[](std::size_t i) const { return data_[i]; }
  T& front() { return data_[0]; }
  const T& front() const { return data_[0]; }
  T& back() { return data_[size_ - 1]; }
  const T& back() const { return data_[size_ - 1]; }

  void push_back(T item) {
    if (size_ == capacity_) reserve(2 * capacity_);
    new (data_ + size_++) T(std::move(item));
  }
  void resize(std::size_t count) {
    reserve(count);
    while (size_ < count) new (data_ + size_++) T();
    while (size_ > count) data_[--size_].~T();
  }
  void clear() { resize(0); }
  void reserve(std::size_t capacity) {
    if (capacity <= capacity_) return;
    // NOLINTNEXTLINE(bugprone-sizeof-expression): T may be a pointer
    auto* grown = static_cast<T*>(::operator new(capacity * sizeof(T), std::align_val_t(alignof(T))));
    std::uninitialized_move_n(data_, size_, grown);
    std::destroy_n(data_, size_);
    free_heap();
    data_ = grown;
    capacity_ = capacity;
  }

  friend bool operator==(const SmallVector& a, const SmallVector& b) {
    if (a.size_ != b.size_) return false;
    for (std::size_t i = 0; i < a.size_; ++i) {
      if (!(a[i] == b[i])) return false;
    }
    return true;
  }

 private:
  T* inline_data() { return reinterpret_cast<T*>(inline_); }
  bool on_heap() const { return static_cast<const void*>(data_) != static_cast<const void*>(inline_); }
  void free_heap() {
    if (on_heap()) ::operator delete(data_, std::align_val_t(alignof(T)));
  }
  void destroy() {
    std::destroy_n(data_, size_);
    free_heap();
    data_ = inline_data();
    size_ = 0;
    capacity_ = N;
  }
  void take(SmallVector& other) noexcept {
    if (other.on_heap()) {
      data_ = std::exchange(other.data_, other.inline_data());
      capacity_ = std::exchange(other.capacity_, N);
      size_ = std::exchange(other.size_, 0);
      return;
    }
    std::uninitialized_move_n(other.data_, other.size_, data_);
    size_ = other.size_;
    other.clear();
  }

  alignas(T) std::byte inline_[N * sizeof(T)];  // NOLINT(bugprone-sizeof-expression): T may be a pointer
  T* data_ = inline_data();
  std::size_t size_ = 0;
  std::size_t capacity_ = N;
};

}  // namespace starling
