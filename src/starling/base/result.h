#pragma once

#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "starling/base/error.h"

namespace starling {

// Why something that may fail did (a file, a peer, a request): the message of an error, not thrown.
struct Failure {
  std::string message;
};

template <class... Args>
Failure failure(fmt::format_string<Args...> format, Args&&... args) {
  return {fmt::format(format, std::forward<Args>(args)...)};
}

// A value, or why there is none. For failures the caller is expected to handle; value() turns one into an Error.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}                    // NOLINT(google-explicit-constructor)
  Result(Failure failure) : error_(std::move(failure.message)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return value_.has_value(); }
  explicit operator bool() const { return ok(); }
  const std::string& error() const { return error_; }  // empty when ok
  Failure failure() const { return {error_}; }         // to hand on to a Result of another type

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

// The message of an error without the rank it was thrown on: Result::value puts the rank of its own thread before it.
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
