#pragma once

#include <memory>

// Replacement for a header that Gloo's own headers include and Debian's package lacks. Its three names appear there as
// members only: their code is inside libgloo, and nothing here constructs, copies or destroys one. They are therefore
// mere padding, as large as a std::shared_ptr; classes derived from Gloo's leave extra room (wire.h), should the real
// ones be larger.
namespace gloo {

template <typename T>
class ShareableNonOwningPtr {
  std::shared_ptr<T> room_;
};

template <typename T>
class WeakNonOwningPtr {
 public:
  WeakNonOwningPtr() = delete;
  explicit WeakNonOwningPtr(const ShareableNonOwningPtr<T>& of);  // not defined: never called

 private:
  std::weak_ptr<T> room_;
};

template <typename T>
class NonOwningPtr {
  std::shared_ptr<T> room_;
};

}  // namespace gloo
