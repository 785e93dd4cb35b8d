#pragma once

#include "starling/nn/module.h"
#include "starling/nn/options.h"

namespace starling::nn {

// Layers that rearrange elements. Axes count the batch as axis 0, which stays in place.

class Identity : public Module {
 protected:
  Tensor forward(const Tensor& x) override { return x; }
};

// Joins all axes from `from` on into one.
struct FlattenOptions {
  std::int64_t from = 1;
  static Settings settings();
};
class Flatten : public Module {
 public:
  explicit Flatten(const FlattenOptions& options = {}) : from_(options.from) {}

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  std::int64_t from_;
};

// Reshapes samples; one size may be -1.
struct ReshapeOptions {
  Sizes shape = {};
  static Settings settings();
};
class Reshape : public Module {
 public:
  explicit Reshape(const ReshapeOptions& options);

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  Shape shape_;
};

// Permutes the axes of a sample, counted without the batch: {1, 0} exchanges the two of [n, t, c].
struct PermuteOptions {
  Sizes order = {};
  static Settings settings();
};
class Permute : public Module {
 public:
  explicit Permute(const PermuteOptions& options);

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  Shape order_;
};

// Padding before and after the spatial axes.
struct PadOptions {
  enum class Mode : std::uint8_t { constant, reflect, edge };
  Sizes before = 0;
  Sizes after = 0;
  Mode mode = Mode::constant;
  double value = 0;
  static Settings settings();
};
class Pad : public Module {  // pads every spatial axis of [n, c, sizes..]
 public:
  explicit Pad(const PadOptions& options);

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  PadOptions options_;
};

// PixelShuffle: [n, c · f², h, w] → [n, c, h · f, w · f]; PixelUnshuffle is the inverse.
struct ShuffleOptions {
  std::int64_t factor = 2;
  static Settings settings();
};
class PixelShuffle : public Module {
 public:
  explicit PixelShuffle(const ShuffleOptions& options = {});

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  std::int64_t factor_;
};
class PixelUnshuffle : public Module {
 public:
  explicit PixelUnshuffle(const ShuffleOptions& options = {});

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  std::int64_t factor_;
};

// Interleaves the channels of [n, c, ...] so that each group of the next convolution sees all groups of the one before.
struct ChannelShuffleOptions {
  std::int64_t groups = 1;
  static Settings settings();
};
class ChannelShuffle : public Module {
 public:
  explicit ChannelShuffle(const ChannelShuffleOptions& options = {});

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  std::int64_t groups_;
};

// One index of an axis, which is removed: the last step of a sequence [n, t, c] is {.axis = 1, .index = -1}.
struct SelectOptions {
  std::int64_t axis = 1;
  std::int64_t index = -1;
  static Settings settings();
};
class Select : public Module {
 public:
  explicit Select(const SelectOptions& options = {}) : options_(options) {}

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  SelectOptions options_;
};

// Slice of an axis: `size` elements from `begin`.
struct NarrowOptions {
  std::int64_t axis = 1;
  std::int64_t begin = 0;
  std::int64_t size = 1;
  static Settings settings();
};
class Narrow : public Module {
 public:
  explicit Narrow(const NarrowOptions& options) : options_(options) {}

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  NarrowOptions options_;
};

// Mean or sum over axes, which are removed.
struct ReduceOptions {
  Sizes axes = 1;
  static Settings settings();
};
class Mean : public Module {
 public:
  explicit Mean(const ReduceOptions& options = {}) : axes_(options.axes.values()) {}

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  Shape axes_;
};
class Sum : public Module {
 public:
  explicit Sum(const ReduceOptions& options = {}) : axes_(options.axes.values()) {}

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  Shape axes_;
};

// im2col: every window of [n, c, h, w] as a column of [n, c · kernel, windows]. Fold (col2im) sums columns back into
// images.
struct UnfoldOptions {
  Sizes kernel = 3;
  Sizes stride = 1;
  Sizes padding = 0;
  Sizes dilation = 1;
  static Settings settings();
};
class Unfold : public Module {
 public:
  explicit Unfold(const UnfoldOptions& options = {});

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  Shape kernel_, stride_, padding_, dilation_;
};
struct FoldOptions {
  Sizes size = {};  // height and width of the output
  Sizes kernel = 3;
  Sizes stride = 1;
  Sizes padding = 0;
  Sizes dilation = 1;
  static Settings settings();
};
class Fold : public Module {
 public:
  explicit Fold(const FoldOptions& options);

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  Shape size_, kernel_, stride_, padding_, dilation_;
};

struct UpsampleOptions {
  enum class Mode : std::uint8_t { nearest, bilinear };
  std::vector<double> scale = {2};  // one factor, or one each for height and width
  Sizes size = {};                  // of the output, instead of the scale
  Mode mode = Mode::nearest;
  bool align_corners = false;  // bilinear only: aligns the centres of the corner pixels
  static Settings settings();
};
class Upsample : public Module {  // resizes images [n, c, h, w]
 public:
  explicit Upsample(const UpsampleOptions& options = {});

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  UpsampleOptions options_;
};

// Crops regions of feature maps to one size: (x [n, c, h, w], boxes [k, 4], sample i64[k]) → [k, c, size..]; see
// ops/api/vision.h.
struct RoiAlignOptions {
  Sizes size = 7;
  double spatial_scale = 1;
  std::int64_t sampling_ratio = 0;
  bool aligned = false;
  static Settings settings();
};
class RoiAlign : public Module {
 public:
  explicit RoiAlign(const RoiAlignOptions& options = {});

 protected:
  Tensor forward(const Tensor& x) override;  // throws: boxes are needed
  TensorList forward_list(std::span<const Tensor> xs) override;

 private:
  Shape size_;
  RoiAlignOptions options_;
};

}  // namespace starling::nn
