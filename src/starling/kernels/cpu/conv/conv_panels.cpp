#include "starling/kernels/cpu/conv/conv_panels.h"

#include <algorithm>

#include "starling/base/parallel.h"
#include "starling/kernels/cpu/conv/conv_cut.h"

namespace starling::kernels {
namespace {

constexpr std::int64_t kBlockTaps = 512;                       // panel of 128 KB
constexpr std::int64_t kDeepTaps = 384, kDeepPositions = 256;  // block sizes of the weight gradient's sums
constexpr std::int64_t kDeepPitch = kDeepPositions + 16;       // not a power of two: rows must not share cache sets
constexpr std::int64_t kImageFloats = 256 * 1024;              // floats of the padded images of a group
constexpr std::int64_t kLeastTaps = 64, kLeastOut = 64, kSmallImage = 256;

}  // namespace

// Excludes most 1 x 1 convolutions: plain products read the image itself just as well, unless it is so small that its
// last vector is wasted; and with few taps at a stride, padding costs more than it gains.
bool PanelConv::takes(const Conv2dShape& s, Pass pass, int threads) {
  if (s.groups != 1 || !PhasedPlanes::takes(s) || s.taps() < kLeastTaps || s.out_channels < kLeastOut ||
      s.in_channels < 16 || s.batch < threads || s.positions() < 16)
    return false;
  if (s.is_pointwise()) return pass != Pass::weight && s.positions() < kSmallImage;
  if (s.kernel_h == 1 && s.kernel_w == 1) return pass == Pass::data && s.positions() < 64 && s.in_channels >= 512;
  return pass != Pass::data || s.stride_h > 1 || s.stride_w > 1;
}

PanelConv::PanelConv(const Conv2dShape& shape, Pass pass, int threads)
    : s_(shape),
      pass_(pass),
      direct_(shape.stride_h == 1 && shape.stride_w == 1 && shape.pad_h == 0 && shape.pad_w == 0),
      planes_(shape, 0),
      threads_(static_cast<int>(std::min<std::int64_t>(threads, shape.batch))) {
  const std::int64_t plane = direct_ ? s_.in_h * s_.in_w : planes_.size();
  pitch_ = direct_ ? s_.in_w : planes_.pitch();
  image_ = s_.in_channels * plane;
  for (std::int64_t c = 0; c < s_.in_channels; ++c) {
    for (std::int64_t kh = 0; kh < s_.kernel_h; ++kh) {
      for (std::int64_t kw = 0; kw < s_.kernel_w; ++kw) {
        const std::int64_t direct = kh * s_.dilation_h * s_.in_w + kw * s_.dilation_w;
        offsets_.push_back(c * plane + (direct_ ? direct : planes_.offset(kh, kw)));
      }
    }
  }
  for (std::int64_t o = 0; o < s_.out_channels; ++o) channels_.push_back(o * s_.positions());
  const std::int64_t each = (s_.batch + threads_ - 1) / threads_;
  group_ = direct_ ? each : std::clamp<std::int64_t>(kImageFloats / image_, 1, each);
  block_ = std::min(pass == Pass::weight ? kDeepTaps : kBlockTaps, s_.taps());
  for (std::int64_t i = 0; i < 4; ++i) {
    plans_[0][i] = plan(16 * (i + 1), block_);
    plans_[1][i] = plan(16 * (i + 1), s_.taps() - (blocks() - 1) * block_);
  }
  std::size_t product = 0;
  for (const auto& row : plans_) {
    for (const GemmPlan& p : row) product = std::max(product, p.scratch_per_thread);
  }
  if (pass == Pass::weight) {
    for (const std::int64_t positions : {std::int64_t{1}, kDeepPositions})
      product = std::max(
          {product, plan_weight(positions, block_).scratch_per_thread, plan_weight(positions, 1).scratch_per_thread});
  }
  images_count_ = direct_ ? 0 : whole_lanes(group_ * image_);
  switch (pass) {
    case Pass::forward:
      panel_count_ = block_ * kPanelWidth;
      results_count_ = s_.out_channels * kPanelWidth;
      break;
    case Pass::data:
      panel_count_ = s_.out_channels * kPanelWidth;
      results_count_ = block_ * kPanelWidth;
      weights_count_ = whole_lanes(s_.taps() * s_.out_channels);
      break;
    case Pass::weight:
      panel_count_ = (block_ + s_.out_channels) * kDeepPitch + kConvLanes;
      results_count_ = whole_lanes(s_.taps() * s_.out_channels);
      break;
  }
  panel_count_ += kConvLanes;
  product_count_ = whole_lanes(static_cast<std::int64_t>(product / sizeof(float)) + 1);
  per_thread_ = images_count_ + panel_count_ + results_count_ + product_count_;
}

PanelConv::Memory PanelConv::carve(void* scratch, int thread) const {
  float* at = static_cast<float*>(scratch) + weights_count_ + thread * per_thread_;
  float* panel = at + images_count_;
  return {at, panel, panel + panel_count_, panel + panel_count_ + results_count_};
}

GemmPlan PanelConv::plan(std::int64_t width, std::int64_t taps) const {
  if (pass_ == Pass::forward) {
    return plan_gemm({.m = s_.out_channels,
                      .n = width,
                      .k = taps,
                      .lda = s_.taps(),
                      .ldb = kPanelWidth,
                      .ldc = kPanelWidth,
                      .b_padded = true},
                     1);
  }
  return plan_gemm(
      {.m = taps, .n = width, .k = s_.out_channels, .ldb = kPanelWidth, .ldc = kPanelWidth, .b_padded = true}, 1);
}

std::span<const std::int64_t> PanelConv::block_offsets(std::int64_t block) const {
  const std::int64_t begin = block * block_, end = std::min(s_.taps(), begin + block_);
  return {offsets_.data() + begin, static_cast<std::size_t>(end - begin)};
}

PanelConv::Runs PanelConv::find_runs(std::int64_t begin, std::int64_t end, std::int64_t image, std::int64_t pitch,
                                     PanelRun* runs) const {
  const std::int64_t positions = s_.positions();
  const std::int64_t width = pitch == s_.out_w() ? positions : s_.out_w();  // length of contiguous runs
  std::size_t count = 0;
  for (std::int64_t q = begin; q < end;) {
    const std::int64_t at = q % positions, run = std::min(width - at % width, end - q);
    runs[count++] = {q / positions * image + at / width * pitch + at % width, q - begin, run};
    q += run;
  }
  return {runs, count};
}

// Calls body(thread, first image, images) for the groups of each thread.
template <class Body>
void PanelConv::share_groups(const Body& body) const {
  parallel_run(threads_, [&](int thread) {
    const std::int64_t end = s_.batch * (thread + 1) / threads_;
    for (std::int64_t n = s_.batch * thread / threads_; n < end; n += group_)
      body(thread, n, std::min(group_, end - n));
  });
}

// Images in the format that panels are gathered from.
const float* PanelConv::load_images(const float* x, std::int64_t first, std::int64_t images,
                                    const Memory& memory) const {
  const std::int64_t plane = s_.in_h * s_.in_w;
  const float* from = x + first * s_.in_channels * plane;
  if (direct_) return from;
  for (std::int64_t c = 0; c < images * s_.in_channels; ++c)
    planes_.load(from + c * plane, memory.images + c * planes_.size());
  return memory.images;
}

void PanelConv::forward(const float* x, const float* w, const float* bias, bool relu, float* y, void* scratch) const {
  const std::int64_t positions = s_.positions();
  parallel_run(threads_, [&](int thread) { std::fill_n(carve(scratch, thread).images, images_count_, 0.0F); });
  share_groups([&](int thread, std::int64_t first, std::int64_t images) {
    const Memory memory = carve(scratch, thread);
    const float* from = load_images(x, first, images, memory);
    for (std::int64_t q = 0; q < images * positions; q += kPanelWidth) {
      PanelRun in[kPanelWidth], out[kPanelWidth];
      const std::int64_t end = std::min(images * positions, q + kPanelWidth);
      const Runs runs = find_runs(q, end, image_, pitch_, in);
      for (std::int64_t b = 0; b < blocks(); ++b) {
        pack_panel(from, block_offsets(b), runs, memory.panel);
        gemm(plan_of(end - q, b), w + b * block_, memory.panel, memory.results, {.accumulate = b > 0}, memory.product);
      }
      store_panel(memory.results, s_.out_channels, find_runs(q, end, s_.out_channels * positions, s_.out_w(), out),
                  bias, relu, y + first * s_.out_channels * positions, positions);
    }
  });
}

void PanelConv::backward_data(const float* dy, const float* w, float* dx, void* scratch) const {
  const std::int64_t plane = s_.in_h * s_.in_w, positions = s_.positions(), out = s_.out_channels;
  auto* weights = static_cast<float*>(scratch);  // [taps, out]
  parallel_run(threads_, [&](int thread) {
    const std::int64_t begin = s_.taps() * thread / threads_, end = s_.taps() * (thread + 1) / threads_;
    transpose_floats(w + begin, s_.taps(), out, end - begin, weights + begin * out, out);
  });
  share_groups([&](int thread, std::int64_t first, std::int64_t images) {
    const Memory memory = carve(scratch, thread);
    float* result = dx + first * s_.in_channels * plane;
    float* to = direct_ ? result : memory.images;
    std::fill_n(to, images * image_, 0.0F);
    for (std::int64_t q = 0; q < images * positions; q += kPanelWidth) {
      PanelRun in[kPanelWidth], flat[kPanelWidth];
      const std::int64_t end = std::min(images * positions, q + kPanelWidth);
      pack_panel(dy + first * s_.out_channels * positions, channels_,
                 find_runs(q, end, s_.out_channels * positions, s_.out_w(), flat), memory.panel);
      const Runs runs = find_runs(q, end, image_, pitch_, in);
      for (std::int64_t b = 0; b < blocks(); ++b) {
        gemm(plan_of(end - q, b), weights + b * block_ * out, memory.panel, memory.results, {}, memory.product);
        add_panel(memory.results, block_offsets(b), runs, to);
      }
    }
    if (direct_) return;
    for (std::int64_t c = 0; c < images * s_.in_channels; ++c)
      planes_.store(memory.images + c * planes_.size(), result + c * plane);
  });
}

GemmPlan PanelConv::plan_weight(std::int64_t positions, std::int64_t taps) const {
  return plan_gemm({.m = s_.out_channels,
                    .n = taps,
                    .k = positions,
                    .trans_b = true,
                    .lda = kDeepPitch,
                    .ldb = kDeepPitch,
                    .ldc = s_.taps()},
                   1);
}

void PanelConv::backward_weight(const float* x, const float* dy, float* dw, void* scratch) const {
  const std::int64_t positions = s_.positions(), out = s_.out_channels;
  parallel_run(threads_, [&](int thread) {
    const Memory memory = carve(scratch, thread);
    std::fill_n(memory.images, images_count_, 0.0F);
    std::fill_n(memory.results, results_count_, 0.0F);
  });
  share_groups([&](int thread, std::int64_t first, std::int64_t images) {
    const Memory memory = carve(scratch, thread);
    const float* from = load_images(x, first, images, memory);
    float* gradients = memory.panel + block_ * kDeepPitch + kConvLanes;
    const std::int64_t pieces = (images * positions + kDeepPositions - 1) / kDeepPositions;
    const std::int64_t step = whole_lanes((images * positions + pieces - 1) / pieces);  // even pieces
    for (std::int64_t q = 0; q < images * positions; q += step) {
      PanelRun in[kDeepPositions], flat[kDeepPositions];
      const std::int64_t end = std::min(images * positions, q + step);
      pack_panel(dy + first * out * positions, channels_, find_runs(q, end, out * positions, s_.out_w(), flat),
                 gradients, kDeepPitch);
      const Runs runs = find_runs(q, end, image_, pitch_, in);
      for (std::int64_t b = 0; b < blocks(); ++b) {
        const auto taps = block_offsets(b);
        pack_panel(from, taps, runs, memory.panel, kDeepPitch);
        gemm(plan_weight(end - q, static_cast<std::int64_t>(taps.size())), gradients, memory.panel,
             memory.results + b * block_, {.accumulate = true}, memory.product);
      }
    }
  });
  add_sums(scratch, dw);
}

void PanelConv::add_sums(const void* scratch, float* dw) const {
  parallel_for(s_.out_channels * s_.taps(), 64 * 1024, [&](std::int64_t begin, std::int64_t end) {
    for (int thread = 0; thread < threads_; ++thread) {
      const float* sums = carve(const_cast<void*>(scratch), thread).results;
      for (std::int64_t i = begin; i < end; ++i) dw[i] = thread == 0 ? sums[i] : dw[i] + sums[i];
    }
  });
}

}  // namespace starling::kernels
