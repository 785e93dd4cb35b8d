#include "starling/data/loading/portions.h"

#include <algorithm>

#include "starling/base/error.h"

namespace starling::data {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

PortionGrid::PortionGrid(const Options& options) : options_(options) {
  check(options.samples >= 1 && options.batch >= 1 && options.pieces >= 1,
        "[portions] expected samples, a batch and pieces of at least 1, got {}, {} and {}", options.samples,
        options.batch, options.pieces);
  batches_ = ceil_div(options.samples, options.batch);
  first_batches_ = ceil_div(std::max<std::int64_t>(0, options.samples - options.start.sample), options.batch);
}

PortionGrid::Span PortionGrid::at(std::int64_t portion) const {
  const std::int64_t number = portion / options_.pieces, piece = portion % options_.pieces;
  Span span;
  if (number < first_batches_) {
    span.batch = {options_.start.epoch, options_.start.sample + number * options_.batch};
  } else {
    const std::int64_t later = number - first_batches_;
    span.batch = {options_.start.epoch + 1 + later / batches_, later % batches_ * options_.batch};
  }
  span.total = std::min(options_.batch, options_.samples - span.batch.sample);
  span.first = span.total * piece / options_.pieces;
  span.size = span.total * (piece + 1) / options_.pieces - span.first;
  return span;
}

DataPosition PortionGrid::after(std::int64_t portions) const {
  if (portions == 0) return options_.start;
  const Span last = at(portions - 1);
  return {last.batch.epoch, last.batch.sample + last.first + last.size};
}

std::int64_t PortionGrid::before_epoch(std::int64_t epoch) const {
  if (epoch <= options_.start.epoch) return 0;
  return (first_batches_ + (epoch - options_.start.epoch - 1) * batches_) * options_.pieces;
}

}  // namespace starling::data
