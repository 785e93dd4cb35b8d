#include "starling/kernels/cpu/conv_depthwise.h"

#include <algorithm>

#include "starling/base/parallel.h"
#include "starling/kernels/cpu/conv_cut.h"
#include "starling/kernels/cpu/depthwise_rows.h"

namespace starling {
namespace {

constexpr std::int64_t kMostStride = 4;
constexpr std::int64_t kWorkPerThread = 128 * 1024;
constexpr std::int64_t kFloatsTogether = 4 * 1024;  // planes moved before they are used: still in the L1 cache

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

bool DepthwiseConv::takes(const Conv2dShape& s) {
  return s.groups > 1 && s.group_in() == 1 && s.stride_h <= kMostStride && s.stride_w <= kMostStride &&
         s.pad_h <= (s.kernel_h - 1) * s.dilation_h && s.pad_w <= (s.kernel_w - 1) * s.dilation_w;
}

DepthwiseConv::DepthwiseConv(const Conv2dShape& shape, int threads)
    : s_(shape),
      rows_(divide_up(shape.in_h + 2 * shape.pad_h, shape.stride_h)),
      pitch_(divide_up(shape.in_w + 2 * shape.pad_w, shape.stride_w)),
      plane_(whole_lanes(rows_ * pitch_ + kDepthwiseSlack)),
      count_(shape.out_h() * pitch_) {
  for (std::int64_t kh = 0; kh < s_.kernel_h; ++kh) {
    for (std::int64_t kw = 0; kw < s_.kernel_w; ++kw) {
      const std::int64_t row = kh * s_.dilation_h, col = kw * s_.dilation_w;
      offsets_.push_back((row % s_.stride_h * s_.stride_w + col % s_.stride_w) * plane_ + row / s_.stride_h * pitch_ +
                         col / s_.stride_w);
    }
  }
  for (std::int64_t phase = 0; phase < s_.stride_h * s_.stride_w; ++phase) {
    first_.push_back(static_cast<std::int64_t>(order_.size()));
    for (std::int64_t t = 0; t < s_.taps(); ++t) {
      const std::int64_t offset = offsets_[static_cast<std::size_t>(t)];
      if (offset / plane_ != phase) continue;
      order_.push_back(t);
      back_.push_back(-(offset % plane_));
    }
  }
  first_.push_back(static_cast<std::int64_t>(order_.size()));
  const std::int64_t work = s_.batch * s_.out_channels * s_.positions() * s_.taps();
  threads_ = static_cast<int>(std::clamp<std::int64_t>(std::min(s_.in_channels, work / kWorkPerThread), 1, threads));
  margin_ = plane_;
  image_ = plane_ * s_.stride_h * s_.stride_w;
  line_ = margin_ + plane_;
  sums_ = whole_lanes(s_.group_out() * s_.taps());
  together_ = std::clamp<std::int64_t>(kFloatsTogether / (image_ + line_), 1, 16);
  per_thread_ = (image_ + line_ + sums_) * together_;
}

DepthwiseConv::Memory DepthwiseConv::carve(void* scratch, int thread) const {
  float* at = static_cast<float*>(scratch) + thread * per_thread_;
  return {at, at + image_ * together_, at + (image_ + line_) * together_};
}

void DepthwiseConv::clear(const Memory& memory) const {
  std::fill_n(memory.image, image_ * together_, 0.0F);
  std::fill_n(memory.line, line_ * together_, 0.0F);
}

// Calls body(thread, first channel, channels) for pieces of each thread's channels.
template <class Body>
void DepthwiseConv::share_channels(const Body& body) const {
  parallel_run(threads_, [&](int thread) {
    const std::int64_t end = s_.in_channels * (thread + 1) / threads_;
    for (std::int64_t c = s_.in_channels * thread / threads_; c < end; c += together_)
      body(thread, c, std::min(together_, end - c));
  });
}

// Only what lies inside is written: the zeros around it stay from one plane to the next.
void DepthwiseConv::load_image(const float* plane, float* to) const {
  if (s_.stride_h == 1 && s_.stride_w == 1) {
    return copy_rows({s_.in_h, s_.in_w, s_.in_w, pitch_}, plane, to + s_.pad_h * pitch_ + s_.pad_w);
  }
  for (std::int64_t h = 0; h < s_.in_h; ++h, plane += s_.in_w) {
    const std::int64_t row = h + s_.pad_h;
    float* line = to + row % s_.stride_h * s_.stride_w * plane_ + row / s_.stride_h * pitch_;
    if (s_.stride_w == 1) {
      std::copy(plane, plane + s_.in_w, line + s_.pad_w);
      continue;
    }
    std::int64_t w = 0;
    if (s_.stride_w == 2) {
      // Columns in pairs; with odd padding the first of a pair is the odd one of the planes, one place earlier.
      const std::int64_t even = s_.pad_w % 2, first = s_.pad_w / 2, pairs = s_.in_w / 2;
      split_pairs(plane, pairs, line + even * plane_ + first, line + (1 - even) * plane_ + first + even);
      w = 2 * pairs;
    }
    for (; w < s_.in_w; ++w) {
      const std::int64_t col = w + s_.pad_w;
      line[col % s_.stride_w * plane_ + col / s_.stride_w] = plane[w];
    }
  }
}

void DepthwiseConv::store_image(const float* from, float* plane) const {
  if (s_.stride_h == 1 && s_.stride_w == 1) {
    return copy_rows({s_.in_h, s_.in_w, pitch_, s_.in_w}, from + s_.pad_h * pitch_ + s_.pad_w, plane);
  }
  for (std::int64_t h = 0; h < s_.in_h; ++h, plane += s_.in_w) {
    const std::int64_t row = h + s_.pad_h;
    const float* line = from + row % s_.stride_h * s_.stride_w * plane_ + row / s_.stride_h * pitch_;
    if (s_.stride_w == 1) {
      std::copy(line + s_.pad_w, line + s_.pad_w + s_.in_w, plane);
      continue;
    }
    for (std::int64_t phase = 0; phase < s_.stride_w; ++phase) {
      // Columns w with (w + pad) % stride == phase.
      const std::int64_t first = ((phase - s_.pad_w) % s_.stride_w + s_.stride_w) % s_.stride_w;
      const float* at = line + phase * plane_ + (first + s_.pad_w) / s_.stride_w;
      for (std::int64_t w = first; w < s_.in_w; w += s_.stride_w) plane[w] = *at++;
    }
  }
}

void DepthwiseConv::load_gradient(const float* plane, float* line) const {
  copy_rows({s_.out_h(), s_.out_w(), s_.out_w(), pitch_}, plane, line);
}

void DepthwiseConv::forward(const float* x, const float* w, const float* bias, bool relu, float* y,
                            void* scratch) const {
  const std::int64_t results = s_.group_out(), positions = s_.positions(), taps = s_.taps();
  parallel_run(threads_, [&](int thread) { clear(carve(scratch, thread)); });
  share_channels([&](int thread, std::int64_t first, std::int64_t channels) {
    const Memory memory = carve(scratch, thread);
    for (std::int64_t n = 0; n < s_.batch; ++n) {
      const float* images = x + (n * s_.in_channels + first) * s_.in_h * s_.in_w;
      for (std::int64_t c = 0; c < channels; ++c) load_image(images + c * s_.in_h * s_.in_w, memory.image + c * image_);
      for (std::int64_t r = 0; r < results; ++r) {
        for (std::int64_t c = 0; c < channels; ++c) {
          const std::int64_t o = (first + c) * results + r;
          depthwise_sum({w + o * taps, offsets_.data(), taps, bias ? bias[o] : 0.0F, relu, false},
                        memory.image + c * image_, count_, memory.line + c * line_);
        }
        for (std::int64_t c = 0; c < channels; ++c) {
          copy_rows({s_.out_h(), s_.out_w(), pitch_, s_.out_w()}, memory.line + c * line_,
                    y + (n * s_.out_channels + (first + c) * results + r) * positions);
        }
      }
    }
  });
}

// Each remainder's plane of dx is a sum over the taps that reach it, reading the gradient backwards.
void DepthwiseConv::sum_planes(const float* w, const float* gradient, bool accumulate, float* weights,
                               float* image) const {
  for (std::size_t t = 0; t < order_.size(); ++t) weights[t] = w[order_[t]];
  for (std::size_t phase = 0; phase + 1 < first_.size(); ++phase) {
    const std::int64_t begin = first_[phase];
    depthwise_sum({weights + begin, back_.data() + begin, first_[phase + 1] - begin, 0.0F, false, accumulate}, gradient,
                  rows_ * pitch_, image + static_cast<std::int64_t>(phase) * plane_);
  }
}

void DepthwiseConv::backward_data(const float* dy, const float* w, float* dx, void* scratch) const {
  const std::int64_t results = s_.group_out(), positions = s_.positions(), taps = s_.taps();
  parallel_run(threads_, [&](int thread) { clear(carve(scratch, thread)); });
  share_channels([&](int thread, std::int64_t first, std::int64_t channels) {
    const Memory memory = carve(scratch, thread);
    for (std::int64_t n = 0; n < s_.batch; ++n) {
      for (std::int64_t r = 0; r < results; ++r) {
        const float* gradients = dy + (n * s_.out_channels + first * results + r) * positions;
        for (std::int64_t c = 0; c < channels; ++c)
          load_gradient(gradients + c * results * positions, memory.line + c * line_ + margin_);
        for (std::int64_t c = 0; c < channels; ++c) {
          sum_planes(w + ((first + c) * results + r) * taps, memory.line + c * line_ + margin_, r > 0, memory.sums,
                     memory.image + c * image_);
        }
      }
      float* images = dx + (n * s_.in_channels + first) * s_.in_h * s_.in_w;
      for (std::int64_t c = 0; c < channels; ++c)
        store_image(memory.image + c * image_, images + c * s_.in_h * s_.in_w);
    }
  });
}

void DepthwiseConv::backward_weight(const float* x, const float* dy, float* dw, void* scratch) const {
  const std::int64_t results = s_.group_out(), positions = s_.positions(), taps = s_.taps();
  parallel_run(threads_, [&](int thread) { clear(carve(scratch, thread)); });
  share_channels([&](int thread, std::int64_t first, std::int64_t channels) {
    const Memory memory = carve(scratch, thread);
    std::fill_n(memory.sums, channels * results * taps, 0.0F);
    for (std::int64_t n = 0; n < s_.batch; ++n) {
      const float* images = x + (n * s_.in_channels + first) * s_.in_h * s_.in_w;
      for (std::int64_t c = 0; c < channels; ++c) load_image(images + c * s_.in_h * s_.in_w, memory.image + c * image_);
      for (std::int64_t r = 0; r < results; ++r) {
        const float* gradients = dy + (n * s_.out_channels + first * results + r) * positions;
        for (std::int64_t c = 0; c < channels; ++c)
          load_gradient(gradients + c * results * positions, memory.line + c * line_);
        for (std::int64_t c = 0; c < channels; ++c) {
          depthwise_dots(memory.image + c * image_, offsets_.data(), taps, memory.line + c * line_, count_,
                         memory.sums + (c * results + r) * taps);
        }
      }
    }
    std::copy_n(memory.sums, channels * results * taps, dw + first * results * taps);
  });
}

}  // namespace starling
