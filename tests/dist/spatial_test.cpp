// Pictures split by rows over ranks, which exchange the rows at the borders: P ranks have the gradients of one process,
// whatever the windows are, and send what the windows look at and no more.
#include <random>

#include "dist/spatial_nets.h"
#include "starling/graph/control/control.h"
#include "starling/nn/normalize.h"
#include "starling/ops/api/activation.h"

namespace starling::spatial_nets {
namespace {

using nn::Conv2d, nn::Conv3d, nn::MaxPool2d, nn::AvgPool2d, nn::LpPool2d, nn::Tanh, nn::Relu, nn::Sequential;

std::vector<MeshAxis> along_model(int ranks) { return {{"model", ranks}}; }

void expect_like_one(const Picture& picture, const std::vector<MeshAxis>& mesh) {
  for (const DType dtype : {DType::f64, DType::f32}) {
    const TensorList one = alone(picture, dtype);
    for (const OnRanks& some : on_threads(picture, dtype, mesh)) {
      ASSERT_EQ(some.gradients.size(), one.size());
      EXPECT_LT(parallel_nets::distance(some.gradients, one), dtype == DType::f64 ? 1e-12 : 1e-5)
          << picture << " on " << MeshShape(mesh).describe();
    }
  }
}

const Picture kPictures[] = {
    {"convolutions_of_an_odd_picture",
     {2, 3, 23, 7},
     [] {
       return Sequential()
           .add("a", Conv2d({.in = 3, .out = 4, .padding = 1}))
           .add("b", Relu())
           .add("c", Conv2d({.in = 4, .out = 4, .kernel = 5, .stride = 2, .padding = 2}))
           .add("d", Tanh())
           .add("e", Conv2d({.in = 4, .out = 6, .kernel = 1, .stride = 2, .groups = 2}));
     }},
    {"dilation",
     {2, 2, 29, 15},
     [] {
       return Sequential()
           .add("a", Conv2d({.in = 2, .out = 4, .padding = 2, .dilation = 2}))
           .add("b", Tanh())
           .add("c",
                Conv2d({.in = 4, .out = 4, .kernel = {4, 3}, .stride = {2, 1}, .padding = {5, 1}, .dilation = {3, 1}}))
           .add("d", Conv2d({.in = 4, .out = 2, .groups = 2, .dilation = 1}));
     }},
    {"transposed",
     {2, 2, 7, 4},
     [] {
       return Sequential()
           .add("a", Conv2d({.in = 2, .out = 3, .padding = 1}))
           .add("b", nn::ConvTranspose2d({.in = 3, .out = 4, .kernel = 3, .padding = 1, .output_padding = 1}))
           .add("c", Tanh())
           .add("d", nn::ConvTranspose2d({.in = 4, .out = 2, .kernel = 2, .stride = 3, .groups = 2, .bias = false}))
           .add("e", Conv2d({.in = 2, .out = 2}));
     }},
    {"largest_elements",
     {2, 3, 27, 9},
     [] {
       return Sequential()
           .add("a", Conv2d({.in = 3, .out = 4, .padding = 1}))
           .add("b", MaxPool2d({.kernel = 3, .stride = 2, .padding = 1}))
           .add("c", Conv2d({.in = 4, .out = 4, .padding = 1}))
           .add("d", MaxPool2d({.kernel = {2, 3}, .stride = 1, .padding = 1, .dilation = 2}))
           .add("e", MaxPool2d({.kernel = 2, .ceil_mode = true}));
     }},
    {"means_and_norms",
     {2, 2, 26, 8},
     [] {
       return Sequential()
           .add("a", Conv2d({.in = 2, .out = 4, .padding = 1}))
           .add("b", AvgPool2d({.kernel = 3, .stride = 2, .padding = 1}))
           .add("c", Conv2d({.in = 4, .out = 4, .padding = 1}))
           .add("d", LpPool2d({.p = 2, .kernel = 2, .stride = 1}))
           .add("e", AvgPool2d({.kernel = 2, .divisor = 3}));
     }},
    // Windows at the edges of the picture have other divisors than those between.
    {"means_of_what_is_there",
     {2, 2, 13, 8},
     [] {
       return Sequential()
           .add("a", Conv2d({.in = 2, .out = 4, .padding = 1}))
           .add("b", AvgPool2d({.kernel = 3, .stride = 2, .padding = 1, .count_include_pad = false}))
           .add("c", Conv2d({.in = 4, .out = 4, .padding = 1}))
           .add("d", AvgPool2d({.kernel = 2, .ceil_mode = true}));
     }},
    {"batch_norm_and_one_mean_of_all",
     {3, 2, 11, 5},
     [] {
       return Sequential()
           .add("a", Conv2d({.in = 2, .out = 4, .padding = 1}))
           .add("b", nn::BatchNorm2d({.channels = 4}))
           .add("c", Relu())
           .add("d", Conv2d({.in = 4, .out = 4, .stride = 2, .padding = 1}))
           .add("e", nn::BatchNorm2d({.channels = 4}))
           .add("f", nn::GlobalAvgPool())
           .add("g", nn::Linear({.in = 4, .out = 3}));
     }},
    {"one_mean_of_uneven_pieces",
     {2, 2, 7, 5},
     [] {
       return Sequential()
           .add("a", Conv2d({.in = 2, .out = 4, .padding = 1}))
           .add("b", Tanh())
           .add("c", nn::AdaptiveAvgPool2d({.size = {1, 2}}))
           .add("d", nn::Flatten());
     }},
    {"volumes",
     {2, 1, 13, 5, 4},
     [] {
       return Sequential()
           .add("a", Conv3d({.in = 1, .out = 3, .padding = 1}))
           .add("b", nn::MaxPool3d({.kernel = {3, 2, 2}, .stride = {2, 1, 1}, .padding = {1, 0, 0}}))
           .add("c", Conv3d({.in = 3, .out = 2, .kernel = {3, 2, 1}, .dilation = {2, 1, 1}}));
     }},
    {"filters_of_their_own",
     {2, 2, 15, 6},
     [] {
       return Sequential()
           .add("local1",
                nn::LocallyConnected2d({.in = 2, .out = 3, .height = 15, .width = 6, .kernel = 4, .padding = 0}))
           .add("b", LpPool2d({.p = 2, .kernel = 1, .stride = 1}))
           .add("c", nn::LocalContrastNorm({.size = 5, .sigma = 1.5}))
           .add("local2",
                nn::LocallyConnected2d({.in = 3, .out = 2, .height = 12, .width = 3, .kernel = 3, .padding = 1}))
           .add("e", Tanh());
     }},
    // Windows over several ranks: a rank needs rows of others than its neighbours.
    {"thin_pieces",
     {2, 2, 6, 4},
     [] {
       return Sequential()
           .add("a", Conv2d({.in = 2, .out = 3, .kernel = 7, .padding = 3}))
           .add("b", Tanh())
           .add("c", Conv2d({.in = 3, .out = 3, .kernel = 5, .padding = 2}));
     }},
    // From four rows to two: where there are fewer rows than ranks every rank has the whole picture.
    {"fewer_rows_than_ranks",
     {2, 2, 5, 6},
     [] {
       return Sequential()
           .add("a", Conv2d({.in = 2, .out = 3, .padding = 1}))
           .add("b", Tanh())
           .add("c", Conv2d({.in = 3, .out = 3, .stride = 2}))
           .add("d", Relu())
           .add("e", nn::Flatten())
           .add("f", nn::Linear({.in = 12, .out = 4}));
     }},
};

class Spatial : public ::testing::TestWithParam<Picture> {};
INSTANTIATE_TEST_SUITE_P(Pictures, Spatial, ::testing::ValuesIn(kPictures),
                         [](const auto& info) { return info.param.name; });

TEST_P(Spatial, GradientsAreThoseOfOneProcess) {
  for (const int ranks : {2, 3, 4}) expect_like_one(GetParam(), along_model(ranks));
  expect_like_one(GetParam(), {{"data", 2}, {"model", 2}});
}

// Only pictures of too few rows are taken whole. Control: these are told.
TEST(SpatialLaws, NothingElseFallsBackToWhole) {
  for (const Picture& picture : kPictures) EXPECT_EQ(fallbacks(picture, along_model(2)), "") << picture;
  EXPECT_EQ(fallbacks(kPictures[std::size(kPictures) - 1], along_model(4)), "conv2d conv2d_backward_weight ");
}

// Bodies that take a picture: what they do with some of its rows is unknown.
class Branching : public nn::Module {
 protected:
  Tensor forward(const Tensor& x) override {
    return cond(
        greater(sum(x), -1e9), [&] { return TensorList{mul(x, tanh(x))}; }, [&] { return TensorList{mul(x, 2.0)}; })[0];
  }
};

class Looping : public nn::Module {
 protected:
  Tensor forward(const Tensor& x) override {
    const auto body = [&](const TensorList& carry, const TensorList& factor) {
      const Tensor next = tanh(mul(carry[0], factor[0]));
      return std::pair{TensorList{next}, TensorList{next}};
    };
    return scan(body, {x}, {cast(arange(1, 4), x.dtype())}).first[0];
  }
};

template <class Body>
Picture around(const std::string& name) {
  return {name, {2, 2, 11, 5}, [] {
            return Sequential()
                .add("a", Conv2d({.in = 2, .out = 3, .padding = 1}))
                .add("b", Body())
                .add("c", Conv2d({.in = 3, .out = 2, .padding = 1}));
          }};
}

TEST(SpatialLaws, BodiesOfControlFlowTakeTheWholePicture) {
  const Picture branching = around<Branching>("branching"), looping = around<Looping>("looping");
  for (const int ranks : {2, 3}) {
    expect_like_one(branching, along_model(ranks));
    expect_like_one(looping, along_model(ranks));
  }
  EXPECT_NE(fallbacks(branching, along_model(2)).find("cond "), std::string::npos);
  EXPECT_NE(fallbacks(looping, along_model(2)), "");
}

// Statistics of a norm alone, as they are after one call: of two samples whose means differ.
const Picture kNorm = {
    "norm", {2, 2, 4, 1}, [] { return Sequential().add("a", nn::BatchNorm2d({.channels = 2, .momentum = 1})); }};

// Along `data`, too, and for halves as for f32: means of each worker's own would be far off.
TEST(SpatialLaws, StatisticsOfNormsAreThoseOfTheWholeBatchForEveryType) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    const TensorList one = alone(kNorm, dtype);
    const auto buffers = [&](const TensorList& all) {
      TensorList found;
      for (std::size_t i = 3; i < all.size(); ++i) found.push_back(all[i]);
      return found;
    };
    ASSERT_GE(one.size(), 5U) << "two gradients, the loss and the running statistics";
    for (const OnRanks& some : on_threads(kNorm, dtype, {{"data", 2}, {"model", 2}}))
      EXPECT_LT(parallel_nets::distance(buffers(some.gradients), buffers(one)), 0.02) << name(dtype);
  }
}

TEST(SpatialLaws, NormsOfHalvesGatherNoBands) {
  const auto norms = std::find_if(std::begin(kPictures), std::end(kPictures),
                                  [](const Picture& one) { return one.name == "batch_norm_and_one_mean_of_all"; });
  for (const DType dtype : {DType::f16, DType::bf16})
    EXPECT_EQ(fallbacks(*norms, along_model(2), {.preset = "spatial"}, dtype), "") << name(dtype);
}

// The filters of a layer without shared ones are split with the rows they belong to: no rank has them all.
TEST(SpatialLaws, FiltersOfTheirOwnAreStoredWhereTheirRowsAre) {
  const auto filters = std::find_if(std::begin(kPictures), std::end(kPictures),
                                    [](const Picture& one) { return one.name == "filters_of_their_own"; });
  const dist::LayoutChoice cots{.preset = "cots"};
  EXPECT_EQ(fallbacks(*filters, along_model(3), cots), "");
  const TensorList one = alone(*filters, DType::f64);
  for (const OnRanks& some : on_threads(*filters, DType::f64, along_model(3), cots))
    EXPECT_LT(parallel_nets::distance(some.gradients, one), 1e-12);
}

// Windows along the rows, as a stack of two has them: only the second has a gradient for its picture.
struct Window {
  std::int64_t kernel, stride, padding, dilation;
  std::int64_t count(std::int64_t size) const {
    return (size + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1;
  }
};

Window any_window(std::mt19937& random, std::int64_t size) {
  const auto pick = [&](int least, int most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random);
  };
  for (;;) {
    const Window window{pick(1, 5), pick(1, 4), pick(0, 4), pick(1, 3)};
    if (size + 2 * window.padding > window.dilation * (window.kernel - 1)) return window;
  }
}

Conv2d conv_of(const Window& w, std::int64_t in, std::int64_t out) {
  return Conv2d({.in = in,
                 .out = out,
                 .kernel = {w.kernel, 2},
                 .stride = {w.stride, 1},
                 .padding = {w.padding, 1},
                 .dilation = {w.dilation, 1}});
}

Picture picture_of(const Window& a, const Window& b, std::int64_t size) {
  return {fmt::format("kernel {} stride {} padding {} dilation {}, then {} {} {} {} over {} rows", a.kernel, a.stride,
                      a.padding, a.dilation, b.kernel, b.stride, b.padding, b.dilation, size),
          {2, 2, size, 4},
          [=] {
            return Sequential().add("a", Tanh()).add("b", conv_of(a, 2, 3)).add("c", Tanh()).add("d", conv_of(b, 3, 2));
          }};
}

// Rows of other ranks from the first to the last that the windows of a rank look at, found tap by tap.
std::int64_t rows_of_others(const Window& w, std::int64_t size, int ranks) {
  const auto owner = [ranks](std::int64_t size, std::int64_t row) {
    int rank = 0;
    while (row >= piece_of(size, rank, ranks).begin + piece_of(size, rank, ranks).size) ++rank;
    return rank;
  };
  std::int64_t rows = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    std::int64_t first = size, last = -1;
    for (std::int64_t i = 0; i < w.count(size); ++i) {
      if (owner(w.count(size), i) != rank) continue;
      first = std::min(first, i * w.stride - w.padding);
      last = std::max(last, i * w.stride - w.padding + w.dilation * (w.kernel - 1));
    }
    for (std::int64_t row = std::max<std::int64_t>(first, 0); row <= std::min(last, size - 1); ++row)
      rows += owner(size, row) != rank;
  }
  return rows;
}

std::int64_t borders_of_all(const std::vector<OnRanks>& ranks) {
  std::int64_t bytes = 0;
  for (const OnRanks& one : ranks) bytes += one.borders;
  return bytes;
}

// Law: of every picture that windows look at the rows of others are sent once forward, and their gradients once back if
// there are any. Any kernel, stride, padding and dilation. Control: without the layout nothing is sent.
TEST(SpatialLaws, AnyWindowsHaveTheGradientsOfOneProcessAndSendTheBordersOnly) {
  std::mt19937 random(3);
  int tried = 0;
  for (int i = 0; tried < 16; ++i) {
    const int ranks = 2 + i % 3;
    const std::int64_t size = 4 + static_cast<std::int64_t>(random() % 21);
    const Window a = any_window(random, size), b = any_window(random, a.count(size));
    if (a.count(size) < ranks || b.count(a.count(size)) < ranks) continue;
    ++tried;
    const Picture picture = picture_of(a, b, size);
    SCOPED_TRACE(picture.name + " on " + std::to_string(ranks));
    expect_like_one(picture, along_model(ranks));
    const std::int64_t first = 2 * 2 * 4 * 8, second = 2 * 3 * 5 * 8;  // bytes of a row of both pictures
    EXPECT_EQ(borders_of_all(on_threads(picture, DType::f64, along_model(ranks))),
              rows_of_others(a, size, ranks) * first + 2 * rows_of_others(b, a.count(size), ranks) * second);
    EXPECT_EQ(borders_of_all(on_threads(picture, DType::f64, along_model(ranks), {})), 0);
  }
}

// Every worker has the pictures of the inputs whole. Control: the same, computed from them.
TEST(SpatialLaws, BordersOfInputsAreNotSent) {
  const Window window{.kernel = 3, .stride = 1, .padding = 1, .dilation = 1};
  const Picture input{"input", {2, 2, 9, 4}, [=] { return Sequential().add("a", conv_of(window, 2, 3)); }};
  const Picture made{
      "made", {2, 2, 9, 4}, [=] { return Sequential().add("a", Tanh()).add("b", conv_of(window, 2, 3)); }};
  EXPECT_EQ(borders_of_all(on_threads(input, DType::f64, along_model(3))), 0);
  EXPECT_EQ(borders_of_all(on_threads(made, DType::f64, along_model(3))), 4 * 2 * 2 * 4 * 8);
}

}  // namespace
}  // namespace starling::spatial_nets
