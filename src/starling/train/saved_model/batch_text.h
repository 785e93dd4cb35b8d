#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace starling::train {

// Graphs have static shapes. The text of a graph for any batch size has `?` where its numbers depend on that size:
//   %0 = input {shape=[?, 1, 28, 28]}   : f32[?, 1, 28, 28] "image"
//   %7 = reshape(%6) {shape=[?, 800]}   : f32[?, 800]
// `?` is the batch size, `16?` sixteen times that, `16?+3` three more. Quoted names are left alone.

// Substitutes a batch size. Throws "[model] …" on a number that does not fit and on a batch below 1.
std::string with_batch(std::string_view text, std::int64_t batch);

// Finds which numbers depend on the batch size, and how, by printing the graph for several: `print(n)` returns its text
// for n samples. Throws if a number is not linear in the batch size, naming the line.
std::string free_batch(const std::function<std::string(std::int64_t batch)>& print);

}  // namespace starling::train
