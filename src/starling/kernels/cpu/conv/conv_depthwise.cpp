#include "starling/kernels/cpu/conv/conv_depthwise.h"

#include <algorithm>

#include "starling/base/parallel.h"
#include "starling/kernels/cpu/conv/conv_cut.h"
#include "starling/kernels/cpu/conv/depthwise_rows.h"

namespace starling::kernels {
namespace {

constexpr std::int64_t kWorkPerThread = 128 * 1024;
constexpr std::int64_t kFloatsTogether = 8 * 1024;  // floats of the planes copied before they are used: still in cache

}  // namespace

bool DepthwiseConv::takes(const Conv2dShape& s) { return s.groups > 1 && s.group_in() == 1 && PhasedPlanes::takes(s); }

DepthwiseConv::DepthwiseConv(const Conv2dShape& shape, int threads)
    : s_(shape), planes_(shape, kDepthwiseSlack), count_(shape.out_h() * planes_.pitch()) {
  const std::int64_t plane = planes_.plane();
  for (std::int64_t kh = 0; kh < s_.kernel_h; ++kh) {
    for (std::int64_t kw = 0; kw < s_.kernel_w; ++kw) offsets_.push_back(planes_.offset(kh, kw));
  }
  for (std::int64_t phase = 0; phase < planes_.phases(); ++phase) {
    first_.push_back(static_cast<std::int64_t>(order_.size()));
    for (std::int64_t t = 0; t < s_.taps(); ++t) {
      const std::int64_t offset = offsets_[static_cast<std::size_t>(t)];
      if (offset / plane != phase) continue;
      order_.push_back(t);
      back_.push_back(-(offset % plane));
    }
  }
  first_.push_back(static_cast<std::int64_t>(order_.size()));
  const std::int64_t work = s_.batch * s_.out_channels * s_.positions() * s_.taps();
  threads_ = static_cast<int>(std::clamp<std::int64_t>(std::min(s_.in_channels, work / kWorkPerThread), 1, threads));
  margin_ = plane;
  image_ = planes_.size();
  line_ = margin_ + plane;
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

void DepthwiseConv::load_gradient(const float* plane, float* line) const {
  copy_rows({s_.out_h(), s_.out_w(), s_.out_w(), planes_.pitch()}, plane, line);
}

void DepthwiseConv::forward(const float* x, const float* w, const float* bias, bool relu, float* y,
                            void* scratch) const {
  const std::int64_t results = s_.group_out(), positions = s_.positions(), taps = s_.taps();
  parallel_run(threads_, [&](int thread) { clear(carve(scratch, thread)); });
  share_channels([&](int thread, std::int64_t first, std::int64_t channels) {
    const Memory memory = carve(scratch, thread);
    for (std::int64_t n = 0; n < s_.batch; ++n) {
      const float* images = x + (n * s_.in_channels + first) * s_.in_h * s_.in_w;
      for (std::int64_t c = 0; c < channels; ++c)
        planes_.load(images + c * s_.in_h * s_.in_w, memory.image + c * image_);
      for (std::int64_t r = 0; r < results; ++r) {
        for (std::int64_t c = 0; c < channels; ++c) {
          const std::int64_t o = (first + c) * results + r;
          depthwise_sum({w + o * taps, offsets_.data(), taps, bias ? bias[o] : 0.0F, relu, false},
                        memory.image + c * image_, count_, memory.line + c * line_);
        }
        for (std::int64_t c = 0; c < channels; ++c) {
          copy_rows({s_.out_h(), s_.out_w(), planes_.pitch(), s_.out_w()}, memory.line + c * line_,
                    y + (n * s_.out_channels + (first + c) * results + r) * positions);
        }
      }
    }
  });
}

// Computes the plane of dx of each phase as a sum over the taps that reach it, reading the gradient backwards.
void DepthwiseConv::sum_planes(const float* w, const float* gradient, bool accumulate, float* weights,
                               float* image) const {
  for (std::size_t t = 0; t < order_.size(); ++t) weights[t] = w[order_[t]];
  for (std::size_t phase = 0; phase + 1 < first_.size(); ++phase) {
    const std::int64_t begin = first_[phase];
    depthwise_sum({weights + begin, back_.data() + begin, first_[phase + 1] - begin, 0.0F, false, accumulate}, gradient,
                  planes_.rows() * planes_.pitch(), image + static_cast<std::int64_t>(phase) * planes_.plane());
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
        planes_.store(memory.image + c * image_, images + c * s_.in_h * s_.in_w);
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
      for (std::int64_t c = 0; c < channels; ++c)
        planes_.load(images + c * s_.in_h * s_.in_w, memory.image + c * image_);
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

}  // namespace starling::kernels
