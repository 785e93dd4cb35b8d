#pragma once

#include <exception>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace starling::python {

// Lines where an op of this name was written; none where it is not known.
using LinesOfOp = std::function<std::vector<std::string>(std::string_view op)>;

// Whether an op is meant by the name that an error begins with: its own, or that of the function it is a part of
// (cross_entropy_sum of cross_entropy).
bool is_meant(std::string_view op, std::string_view name);

// Throws the exception again, an error of the library with the lines of the op that it names: "[index_select] expected
// … (written at train.py:12)". With several of them it is one of those.
[[noreturn]] void rethrow_with_lines(const std::exception_ptr& error, const LinesOfOp& lines_of);

}  // namespace starling::python
