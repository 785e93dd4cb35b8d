#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace starling {

// Thrown on misuse. Messages begin with the op or module in brackets and say what was expected, what was given and
// where:
//   [matmul] expected inner sizes to agree, got [64, 784] and [512, 10]
// Inside a rank of a distributed run every message carries the rank.
class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message);
};

// Rank that errors of this thread are attributed to; -1 outside a distributed run.
void set_thread_rank(int rank);
int thread_rank();

// The work of fail(), compiled once instead of for every list of arguments.
[[noreturn, gnu::cold]] void fail_with(fmt::string_view format, fmt::format_args args);

template <class... Args>
[[noreturn, gnu::cold]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  fail_with(format, fmt::make_format_args(args...));
}

template <class... Args>
void check(bool condition, fmt::format_string<Args...> format, Args&&... args) {
  if (!condition) [[unlikely]]
    fail(format, std::forward<Args>(args)...);
}

}  // namespace starling
