#pragma once

#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "starling/base/error.h"

namespace starling {

// Message of an expected failure (a file, a peer, a request): returned, not thrown.
struct Failure {
  std::string message;
};

template <class... Args>
Failure failure(fmt::format_string<Args...> format, Args&&... args) {
  return {fmt::format(format, std::forward<Args>(args)...)};
}

// A value or a failure message. For failures the caller is expected to handle; value() throws one as an Error.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}                    // NOLINT(google-explicit-constructor)
  Result(Failure failure) : error_(std::move(failure.message)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return value_.has_value(); }
  explicit operator bool() const { return ok(); }
  const std::string& error() const { return error_; }  // empty when ok
  Failure failure() const { return {error_}; }         // for a Result of another type

  T& value() & {
    expect();
    return *value_;
  }
  const T& value() const& {
    expect();
    return *value_;
  }
  T value() && {
    expect();
    return std::move(*value_);
  }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }

 private:
  void expect() const {
    if (!ok()) throw Error(error_);
  }

  std::optional<T> value_;
  std::string error_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Failure failure) : error_(std::move(failure.message)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  std::string error() const { return error_.value_or(""); }
  Failure failure() const { return {error()}; }
  void value() const {
    if (!ok()) throw Error(*error_);
  }

 private:
  std::optional<std::string> error_;
};

// Error message without the rank prefix: Result::value adds the rank of its own thread again.
inline std::string message_without_rank(const Error& error) {
  std::string message = error.what();
  const std::string prefix = fmt::format("[rank {}] ", thread_rank());
  return message.starts_with(prefix) ? message.substr(prefix.size()) : message;
}

// Calls f; an Error it throws becomes the failure. Other exceptions pass through.
template <class F>
auto attempt(F&& f) -> Result<std::invoke_result_t<F>> {
  try {
    if constexpr (std::is_void_v<std::invoke_result_t<F>>) {
      std::forward<F>(f)();
      return {};
    } else {
      return std::forward<F>(f)();
    }
  } catch (const Error& error) {
    return Failure{message_without_rank(error)};
  }
}

}  // namespace starling
