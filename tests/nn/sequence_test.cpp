#include <gtest/gtest.h>

#include <cmath>

#include "starling/starling.h"

namespace starling {
namespace {

TEST(Lstm, WalksTimeFirstAsItDoesBatchFirst) {
  manual_seed(5);
  nn::Lstm first({.in = 2, .hidden = 3, .layers = 2, .bidirectional = true, .batch_first = true});
  nn::Lstm second({.in = 2, .hidden = 3, .layers = 2, .bidirectional = true});
  second.load_state(first.state());
  const Tensor x = normal({4, 5, 2});
  const auto a = first.run(x), b = second.run(swapaxes(x, 0, 1));
  EXPECT_EQ(a.y.to_vector(), swapaxes(b.y, 0, 1).to_vector());
  EXPECT_EQ(a.h.to_vector(), b.h.to_vector());
  EXPECT_EQ(a.c.to_vector(), b.c.to_vector());
}

TEST(Lstm, StepsOfACellMakeTheSequence) {
  manual_seed(5);
  nn::Lstm layer({.in = 2, .hidden = 3});
  nn::LstmCell cell({.in = 2, .hidden = 3});
  cell.load_state(layer.state());
  const Tensor x = normal({4, 5, 2});
  const auto whole = layer.run(x);
  Tensor h, c;
  for (std::int64_t t = 0; t < 4; ++t) {
    const TensorList state = cell({select(x, 0, t), h, c});
    h = state[0];
    c = state[1];
    const auto want = select(whole.y, 0, t).to_vector(), got = h.to_vector();
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-6) << "step " << t;
  }
}

TEST(Recurrent, DropoutBetweenLayersIsThereWhileTraining) {
  manual_seed(5);
  nn::Gru layer({.in = 2, .hidden = 8, .layers = 2, .dropout = 0.5});
  const Tensor x = normal({4, 5, 2});
  EXPECT_NE(layer(x).to_vector(), layer(x).to_vector());
  layer.eval();
  EXPECT_EQ(layer(x).to_vector(), layer(x).to_vector());
}

TEST(Embedding, APaddingRowIsZeroAndStaysSo) {
  nn::Embedding embedding({.vocabulary = 4, .width = 2, .padding = 1});
  const auto w = embedding.weight().to_vector();
  EXPECT_EQ(w[2], 0);
  EXPECT_EQ(w[3], 0);
  EXPECT_NE(w[0], 0);
  sum(embedding(from_host<std::int64_t>(std::vector<std::int64_t>{0, 1, 1}, {3}))).backward();
  EXPECT_EQ(embedding.weight().grad().to_vector(), (std::vector<double>{1, 1, 0, 0, 0, 0, 0, 0}));
}

TEST(PaddingMask, HoldsWhereTokensAre) {
  const Tensor lengths = from_host<std::int64_t>(std::vector<std::int64_t>{2, 0, 3}, {3});
  const Tensor mask = nn::padding_mask(lengths, 3);
  EXPECT_EQ(mask.shape(), (Shape{3, 1, 1, 3}));
  EXPECT_EQ(mask.to_vector(), (std::vector<double>{1, 1, 0, 0, 0, 0, 1, 1, 1}));
  const Tensor ids = from_host<std::int64_t>(std::vector<std::int64_t>{5, 0, 0, 7}, {2, 2});
  EXPECT_EQ(nn::padding_mask_of(ids, 0).to_vector(), (std::vector<double>{1, 0, 0, 1}));
}

TEST(TransformerDecoder, ATokenSeesTheMemoryAndThoseBeforeIt) {
  manual_seed(4);
  nn::TransformerDecoder decoder({.width = 8, .heads = 2, .layers = 2});
  const Tensor x = normal({1, 4, 8}), memory = normal({1, 3, 8});
  const Tensor other = concat({narrow(x, 1, 0, 3), normal({1, 1, 8})}, 1);
  const Tensor a = decoder({x, memory})[0], b = decoder({other, memory})[0], c = decoder({x, normal({1, 3, 8})})[0];
  EXPECT_EQ(narrow(a, 1, 0, 3).to_vector(), narrow(b, 1, 0, 3).to_vector());
  EXPECT_NE(narrow(a, 1, 3, 1).to_vector(), narrow(b, 1, 3, 1).to_vector());
  EXPECT_NE(narrow(a, 1, 0, 1).to_vector(), narrow(c, 1, 0, 1).to_vector());
}

}  // namespace
}  // namespace starling
