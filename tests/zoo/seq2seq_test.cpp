// Decoding: greedy, by beam search, and by brute force.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "starling/starling.h"

namespace starling {
namespace {

using zoo::Hypothesis;
using zoo::Seq2Seq;

constexpr zoo::Seq2SeqOptions kTiny{
    .vocabulary = 7, .tokens = 4, .target_vocabulary = 6, .target_tokens = 4, .width = 5, .hidden = 6};

Seq2Seq make(std::int64_t seed) {
  manual_seed(seed);
  Seq2Seq net(kTiny);
  for (const auto& parameter : net.parameters()) {  // far from uniform, so that searches differ
    const NoGrad no_grad;
    copy_into(parameter, normal(parameter.shape(), {.stddev = 0.9}));
  }
  net.to(DType::f64);
  net.eval();
  return net;
}

Tensor ids(const std::vector<std::vector<std::int64_t>>& rows) {
  const Tensor made =
      empty({static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(rows[0].size())}, DType::i64);
  std::int64_t* to = made.data<std::int64_t>();
  for (const auto& row : rows) to = std::copy(row.begin(), row.end(), to);
  return made;
}

// log p(target | source), step by step from the logits of teacher forcing; `target` ends with the end or is full.
double log_probability(Seq2Seq& net, const Tensor& source, const std::vector<std::int64_t>& target) {
  const auto [memory, state] = net.encode(source);
  std::vector<std::int64_t> previous{Seq2Seq::kBegin};
  previous.insert(previous.end(), target.begin(), target.end() - 1);
  const auto logits = net.decode(memory, state, ids({previous})).first.to_vector();
  double sum = 0;
  for (std::size_t i = 0; i < target.size(); ++i) {
    const double* row = logits.data() + i * kTiny.target_vocabulary;
    double total = 0;
    for (std::int64_t k = 0; k < kTiny.target_vocabulary; ++k) total += std::exp(row[k]);
    sum += row[target[i]] - std::log(total);
  }
  return sum;
}

// Every possible target, best first; ids below the end are never written.
std::vector<Hypothesis> brute_force(Seq2Seq& net, const Tensor& source, std::int64_t longest) {
  std::vector<Hypothesis> all;
  std::vector<std::vector<std::int64_t>> open{{}};
  for (std::int64_t length = 1; length <= longest; ++length) {
    std::vector<std::vector<std::int64_t>> next;
    for (const auto& begun : open) {
      for (std::int64_t id = Seq2Seq::kEnd; id < kTiny.target_vocabulary; ++id) {
        auto longer = begun;
        longer.push_back(id);
        const bool ended = id == Seq2Seq::kEnd;
        if (ended || length == longest) {
          Hypothesis found{longer, log_probability(net, source, longer)};
          if (ended) found.ids.pop_back();
          all.push_back(found);
        }
        if (!ended) next.push_back(longer);
      }
    }
    open = next;
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.score > b.score; });
  return all;
}

TEST(Seq2Seq, WithEnoughBeamsTheSearchFindsWhatTryingEverythingFinds) {
  const Tensor source = ids({{3, 5, 2, 0}, {6, 1, 4, 2}});
  for (std::int64_t seed = 1; seed <= 3; ++seed) {
    Seq2Seq net = make(seed);
    const auto found = zoo::beam_search(net, source, {.beams = 300});
    ASSERT_EQ(found.size(), 2U);
    for (std::int64_t i = 0; i < 2; ++i) {
      const auto all = brute_force(net, narrow(source, 0, i, 1), kTiny.target_tokens);
      const auto& best = found[static_cast<std::size_t>(i)];
      for (std::size_t k = 0; k < 5; ++k) {
        EXPECT_EQ(best[k].ids, all[k].ids) << "seed " << seed << ", source " << i << ", place " << k;
        EXPECT_NEAR(best[k].score, all[k].score, 1e-9);
      }
    }
  }
}

TEST(Seq2Seq, ScoresAreLogProbabilitiesAndNarrowBeamsFindNoBetterOnes) {
  const Tensor source = ids({{3, 5, 2, 0}});
  for (std::int64_t seed = 1; seed <= 5; ++seed) {
    Seq2Seq net = make(seed);
    const double best = brute_force(net, source, kTiny.target_tokens)[0].score;
    double last = -1e9;
    for (const std::int64_t beams : {1, 2, 4, 300}) {
      const Hypothesis found = zoo::beam_search(net, source, {.beams = beams})[0][0];
      EXPECT_LE(found.score, best + 1e-9);
      last = std::max(last, found.score);
    }
    EXPECT_NEAR(last, best, 1e-9);
  }
}

TEST(Seq2Seq, OneBeamIsGreedyDecoding) {
  const Tensor source = ids({{3, 5, 2, 0}, {6, 1, 4, 2}, {2, 2, 0, 0}});
  for (std::int64_t seed = 1; seed <= 4; ++seed) {
    Seq2Seq net = make(seed);
    const auto beams = zoo::beam_search(net, source, {.beams = 1});
    const auto greedy = net(source).to_vector();
    for (std::size_t i = 0; i < beams.size(); ++i) {
      // Greedy decoding may write the two lowest ids, beam search never does; such rows are skipped.
      std::vector<std::int64_t> written;
      for (std::size_t k = 0; k < 4; ++k) written.push_back(static_cast<std::int64_t>(greedy[i * 4 + k]));
      const auto end = std::find(written.begin(), written.end(), Seq2Seq::kEnd);
      if (std::any_of(written.begin(), end, [](auto id) { return id < Seq2Seq::kEnd; })) continue;
      EXPECT_EQ(std::vector<std::int64_t>(written.begin(), end), beams[i][0].ids) << "seed " << seed << ", row " << i;
    }
  }
}

TEST(Seq2Seq, PaddingOfSourcesAndBatchMatesChangeNothing) {
  Seq2Seq net = make(2);
  const auto alone = net.encode(ids({{3, 5, 2}}));
  const auto padded = net.encode(ids({{3, 5, 2, 0, 0}, {6, 1, 4, 2, 3}}));
  const Tensor previous = ids({{1, 4, 3}});
  const auto a = net.decode(alone.first, alone.second, previous).first.to_vector();
  const auto b = net.decode(padded.first, padded.second, concat({previous, previous}, 0)).first.to_vector();
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-12) << i;
}

TEST(Seq2Seq, LearnsToTurnSequencesRound) {
  manual_seed(1);
  const std::int64_t n = 64, length = 3;
  Seq2Seq net({.vocabulary = 8,
               .tokens = length,
               .target_vocabulary = 8,
               .target_tokens = length + 1,
               .width = 16,
               .hidden = 32});
  optim::Sgd optimizer(net.parameters(), {.lr = 0.5, .momentum = 0.9});
  const auto batch = [&] {
    const Tensor source = randint({n, length}, {.low = 3, .high = 8});
    const Tensor turned = slice(source, {.axis = 1, .begin = kToEnd, .end = kToEnd, .step = -1});
    return std::pair(source, concat({turned, full({n, 1}, Seq2Seq::kEnd, DType::i64)}, 1));
  };
  auto step = compile([&](const Tensor& source, const Tensor& target) {
    const Tensor fields[] = {source, target};
    const Tensor loss = net.own_loss(fields).loss;
    loss.backward();
    optimizer.step();
    return loss;
  });
  for (int i = 0; i < 400; ++i) {
    const auto [source, target] = batch();
    step(source, target);
  }
  net.eval();
  const auto [source, target] = batch();
  const auto written = net(source).to_vector(), wanted = target.to_vector();
  int right = 0;
  for (std::size_t i = 0; i < written.size(); ++i) right += written[i] == wanted[i] ? 1 : 0;
  EXPECT_GT(right, static_cast<int>(0.9 * static_cast<double>(written.size())));
}

}  // namespace
}  // namespace starling
