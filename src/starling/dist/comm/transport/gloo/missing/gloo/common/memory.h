#pragma once

#include <memory>

// Stands in for a header that Gloo's own headers include and Debian's package does not have. Its three names appear
// there as members only: what they do is inside libgloo, and nothing of ours makes, copies or destroys one. So they are
// mere room here, as large as a std::shared_ptr; what derives from Gloo's classes leaves room behind them (wire.h),
// should they be larger.
namespace gloo {

template <typename T>
class ShareableNonOwningPtr {
  std::shared_ptr<T> room_;
};

template <typename T>
class WeakNonOwningPtr {
 public:
  WeakNonOwningPtr() = delete;
  explicit WeakNonOwningPtr(const ShareableNonOwningPtr<T>& of);  // not defined: not called

 private:
  std::weak_ptr<T> room_;
};

template <typename T>
class NonOwningPtr {
  std::shared_ptr<T> room_;
};

}  // namespace gloo
