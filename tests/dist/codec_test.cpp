// Codecs without ranks: vector code against plain loops, stripes, choices, and what jobs may name.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "dist/codec_laws.h"
#include "dist/comm_worlds.h"
#include "starling/base/half.h"
#include "starling/dist/codec/choose_again.h"
#include "starling/dist/codec/codec_kinds.h"
#include "starling/dist/codec/low_rank.h"
#include "starling/dist/codec/routes/striped.h"
#include "starling/kernels/cpu/codec/one_bit.h"
#include "starling/kernels/cpu/codec/wire_half.h"

namespace starling::dist {
namespace {

std::vector<float> drawn_values(std::size_t n, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(n);
  for (float& value : values) value = normal(generator);
  return values;
}

TEST(OneBit, VectorCodeDoesWhatPlainLoopsDo) {
  for (std::size_t n = 0; n < 200; ++n) {
    const auto x = drawn_values(n, static_cast<unsigned>(n));
    auto residual = drawn_values(n, static_cast<unsigned>(n + 1000));
    std::vector<double> v(n);
    double sums[2] = {}, counts[2] = {};
    for (std::size_t i = 0; i < n; ++i) {
      v[i] = static_cast<double>(x[i] + residual[i]);
      sums[v[i] >= 0 ? 1 : 0] += v[i];
      counts[v[i] >= 0 ? 1 : 0] += 1;
    }
    std::vector<std::byte> wire(kernels::one_bit_bytes(static_cast<std::int64_t>(n)) + 8, std::byte{77});
    kernels::encode_one_bit(x.data(), residual.data(), static_cast<std::int64_t>(n), wire.data());
    for (std::size_t i = wire.size() - 8; i < wire.size(); ++i) ASSERT_EQ(wire[i], std::byte{77}) << n;
    wire.resize(wire.size() - 8);  // decoding reads no further
    std::vector<float> y(n), sum(n, 1.0F);
    kernels::decode_one_bit(wire.data(), y.data(), static_cast<std::int64_t>(n));
    kernels::add_one_bit(wire.data(), sum.data(), static_cast<std::int64_t>(n));
    for (std::size_t i = 0; i < n; ++i) {
      const int side = v[i] >= 0 ? 1 : 0;
      ASSERT_NEAR(static_cast<double>(y[i]), sums[side] / counts[side], 1e-5) << n;
      ASSERT_NEAR(static_cast<double>(residual[i]), v[i] - static_cast<double>(y[i]), 1e-6) << n;
      ASSERT_EQ(sum[i], 1.0F + y[i]);
    }
  }
}

TEST(WireHalf, RoundsAsStorageDoesAndSaturates) {
  auto x = drawn_values(133, 1);
  x[3] = 1e-6F;
  x[5] = 0.0F;
  const std::size_t last = x.size() - 1;
  for (const bool tail : {false, true}) {  // in whole vectors, and behind them
    const std::size_t at = tail ? last : 0;
    x[at] = 1e6F;
    std::vector<std::uint16_t> wire(x.size());
    std::vector<float> y(x.size(), 2.0F);
    kernels::to_wire_f16(x.data(), wire.data(), static_cast<std::int64_t>(x.size()));
    for (std::size_t i = 0; i < x.size(); ++i) {
      ASSERT_TRUE(i == at || wire[i] == Half::from_float(x[i]).bits) << i;
    }
    kernels::add_wire_f16(wire.data(), y.data(), static_cast<std::int64_t>(x.size()));
    EXPECT_EQ(y[at], 65506.0F) << "the largest f16, not infinity";
    for (const float bad : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      x[at] = bad;
      kernels::to_wire_f16(x.data(), wire.data(), static_cast<std::int64_t>(x.size()));
      kernels::from_wire_f16(wire.data(), y.data(), static_cast<std::int64_t>(x.size()));
      EXPECT_FALSE(std::isfinite(y[at]));
      kernels::to_wire_bf16(x.data(), wire.data(), static_cast<std::int64_t>(x.size()));
      kernels::from_wire_bf16(wire.data(), y.data(), static_cast<std::int64_t>(x.size()));
      EXPECT_FALSE(std::isfinite(y[at]));
      for (std::size_t i = 0; i < x.size(); ++i) {
        ASSERT_TRUE(i == at || wire[i] == BFloat16::from_float(x[i]).bits) << i;
      }
    }
    x[at] = 1.0F;
  }
}

TEST(CodedStripes, CoverAllLinesOnceInOrderAndAboutEvenly) {
  const std::vector<CodedShape> shapes{{100, 30}, {1, 7}, {0, 5}, {3, 0}, {64, 9}, {1, 500}};
  for (const int ranks : {1, 2, 3, 7, 16}) {
    const auto stripes = cut_stripes(shapes, ranks);
    ASSERT_EQ(stripes.size(), static_cast<std::size_t>(ranks));
    std::vector<std::int64_t> next(shapes.size());
    std::size_t tensor = 0;
    std::int64_t total = 0, most = 0;
    for (const CodedStripe& stripe : stripes) {
      std::int64_t values = 0;
      for (const CodedSegment& segment : stripe) {
        EXPECT_GE(segment.tensor, tensor);
        tensor = segment.tensor;
        EXPECT_EQ(segment.begin, next[tensor]);
        next[tensor] += segment.lines;
        values += segment.lines * shapes[tensor].width;
      }
      total += values;
      most = std::max(most, values);
    }
    EXPECT_EQ(total, 100 * 30 + 7 + 64 * 9 + 500);
    EXPECT_LE(most, total / ranks + 500) << "no more than a line beyond its share";
  }
}

TEST(CodecKinds, AreNamedOrGivenWithOptions) {
  const auto choice = CodecChoice::parse("{name: top_k, share: 0.05}");
  EXPECT_EQ(CodecChoice::parse(choice.text()).text(), choice.text());
  EXPECT_EQ(detail::SettingType<CodecChoice>::json(choice).at("share"), 0.05);
  EXPECT_EQ(detail::SettingType<CodecChoice>::json(CodecChoice::parse("{name: one_bit, feedback: true}")), "one_bit");
  EXPECT_TRUE(CodecChoice{}.none());
  EXPECT_EQ(CodecChoice{}.make(), nullptr);
  for (const char* wrong : {"one_bits", "{name: one_bit, share: 0.1}", "{name: top_k, share: 2}", "{share: 0.1}"})
    EXPECT_THROW(CodecChoice::parse(wrong), ConfigError) << wrong;
}

// HybComm: with products for nothing, the choice flips where rows·(M + N) = 2·M·N / P.
TEST(AutoCodec, FlipsAtTheBreakEvenBatch) {
  const CodecPtr fast = CodecChoice::parse("{name: auto, lossy: false, gflops: 1.0e+8}").make();
  for (const int ranks : {2, 4, 8}) {
    const WorldCosts costs{.ranks = ranks, .byte_seconds = 8e-9, .message_seconds = 1e-4};
    const std::int64_t m = 1000, n = 800, even = 2 * m * n / (ranks * (m + n));
    EXPECT_TRUE(fast->by_factors({even - 1, m, n}, costs)) << ranks;
    EXPECT_FALSE(fast->by_factors({even + 1, m, n}, costs)) << ranks;
    const CodecPtr slow = CodecChoice::parse("{name: auto, lossy: false, gflops: 0.01}").make();
    EXPECT_FALSE(slow->by_factors({even - 1, m, n}, costs)) << "control: products that cost more than the link";
    EXPECT_TRUE(CodecChoice::parse("factors").make()->by_factors({even + 1, m, n}, costs));
  }
  EXPECT_FALSE(fast->by_factors({1, 1000, 1000}, {.ranks = 1})) << "nothing to send";
  const CodecPtr measured = CodecChoice::parse("{name: auto, lossy: false}").make();
  const FactorShape few{10, 1000, 800};
  EXPECT_TRUE(measured->by_factors(few, {.ranks = 2, .byte_seconds = 8e-9, .flop_seconds = 1e-11}));
  EXPECT_FALSE(measured->by_factors(few, {.ranks = 2, .byte_seconds = 8e-9, .flop_seconds = 1e-8})) << "slow products";
}

// The rule by bytes, arithmetic, messages and coding: each form where it is the fastest.
TEST(AutoCodec, TakesTheFormOfFewestSeconds) {
  const CodecPtr codec = CodecChoice::parse("auto").make();
  const GradientFacts dense{{1000, 800}, FactorShape{64, 1000, 800}}, conv{{64, 576}, std::nullopt};
  const auto form = [&](const GradientFacts& facts, const WorldCosts& costs, std::vector<GradientForm> without = {}) {
    return name(*codec->choose(facts, costs, without));
  };
  const WorldCosts slow{.ranks = 2,
                        .byte_seconds = 8e-9,
                        .message_seconds = 1e-5,
                        .flop_seconds = 1e-11,
                        .half_seconds = 2e-10,
                        .bit_seconds = 4e-10};
  EXPECT_EQ(form(dense, slow), "one_bit");
  EXPECT_EQ(form(dense, slow, {GradientForm::one_bit}), "factors");
  EXPECT_EQ(form(conv, slow, {GradientForm::one_bit}), "bf16") << "no product";
  EXPECT_EQ(form({{1000, 800}, FactorShape{1, 1000, 800}}, slow), "factors") << "a row is less than a bit a value";
  WorldCosts near = slow;  // memory of one host: coding takes longer than sending
  near.byte_seconds = 1e-11;
  EXPECT_EQ(form(dense, near), "dense");
  EXPECT_EQ(form(conv, near), "dense");
  WorldCosts far = slow;  // messages that take a second: nothing else matters
  far.message_seconds = 1;
  EXPECT_EQ(form(conv, far), "dense") << "something is lost for a tenth of the time, not for less";
  // Break-even of factors and bf16: rows·(M + N) = M·N·2/P / 2, with arithmetic and coding for nothing.
  const WorldCosts link{.ranks = 2, .byte_seconds = 8e-9};
  const std::int64_t m = 1000, n = 800, even = m * n / (2 * (m + n));
  const auto at = [&](double share) {
    return form({{m, n}, FactorShape{static_cast<std::int64_t>(share * static_cast<double>(even)), m, n}}, link,
                {GradientForm::one_bit});
  };
  EXPECT_EQ(at(0.8), "factors");
  EXPECT_EQ(at(1.2), "bf16");
  EXPECT_EQ(form(dense, {.ranks = 1}), "dense") << "nothing to send";
  EXPECT_EQ(CodecChoice::parse("bf16").make()->choose(dense, slow, {}), std::nullopt) << "control: it has one form";
}

TEST(AutoCodec, ChoosesAgainByWaitsAndErrors) {
  const CodecPtr codec = CodecChoice::parse("{name: auto, most_error: 5}").make();
  const GradientFacts conv{{512, 4608}, std::nullopt};
  const WorldCosts costs{.ranks = 2, .byte_seconds = 1e-10, .half_seconds = 2e-10, .bit_seconds = 4e-10};
  const auto again = [&](GradientForm now, double error, bool keeps, SeenStep seen, const GradientFacts& facts,
                         double byte_seconds = 1e-10) {
    const ChosenGradient one[] = {{codec.get(), facts, now, error, keeps}};
    WorldCosts of = costs;
    of.byte_seconds = byte_seconds;
    return name(choose_again(one, of, seen)[0]);
  };
  using enum GradientForm;
  EXPECT_EQ(again(dense, 0, false, {.seconds = 0.1, .waited = 0.001}, conv), "dense") << "nobody waits";
  EXPECT_EQ(again(dense, 0, false, {.seconds = 0.1, .waited = 0.05}, conv), "one_bit") << "a link busier than measured";
  EXPECT_EQ(again(one_bit, 6, true, {.seconds = 0.1, .waited = 0.05}, conv), "bf16") << "too much is kept";
  EXPECT_EQ(again(one_bit, 4, true, {.seconds = 0.1, .waited = 0.05}, conv), "one_bit") << "control: not too much";
  EXPECT_EQ(again(one_bit, 0, true, {.seconds = 1, .waited = 0.001}, conv, 1e-9), "dense")
      << "exact costs too little to tell";
  EXPECT_EQ(again(one_bit, 0, true, {.seconds = 0.01, .waited = 0.0001}, conv, 1e-9), "one_bit")
      << "control: it would be felt";
  const GradientFacts few{{1000, 800}, FactorShape{1, 1000, 800}};
  EXPECT_EQ(again(dense, 0, false, {.seconds = 0.1, .waited = 0.05}, few), "factors");
  EXPECT_NE(again(one_bit, 0, true, {.seconds = 0.1, .waited = 0.05}, few), "factors") << "what is kept leaves first";
}

// A gradient that changes its form: what one_bit kept leaves with the next exchange.
TEST(AutoCodec, LosesNothingWhenTheFormChanges) {
  auto comms = make_thread_comms(3);
  run_ranks(comms, [&](Comm& comm) {
    for (const std::string next : {"dense", "bf16"}) {
      laws::CodedWorld world(comm, "{name: auto, as: one_bit}", {{24, 70}, {33}});
      for (int step = 0; step < 4; ++step) world.step(step);
      EXPECT_LT(world.lost(0), 1e-5);
      EXPECT_GT(world.behind(0), 1) << "control: what was sent alone";
      world.go_on_by("{name: auto, as: " + next + "}");
      world.step(4);
      for (const double kept : world.kept(0)) EXPECT_EQ(kept, 0) << next;
      const double rounding = next == "dense" ? 1e-4 : 0.3;
      EXPECT_LT(world.behind(0), rounding) << next;
      EXPECT_LT(world.behind(1), rounding) << next;
      world.go_on_by("{name: auto, as: one_bit}");
      world.step(5);
      EXPECT_LT(world.lost(0), 1e-2) << "and back";
    }
  });
}

TEST(CodecKinds, OfSingleLayersAreReadToldAndFoundByName) {
  const std::string text =
      R"({"else":"bf16","layers":[{"codec":"factors","name":"fc*"},{"codec":{"feedback":false,"name":"one_bit"},"name":"conv?.weight"}]})";
  const CodecChoice choice = CodecChoice::parse(text);
  EXPECT_EQ(starling::detail::SettingType<CodecChoice>::json(choice).dump(), text);
  EXPECT_EQ(choice.of("fc1.weight").chosen.name, "factors");
  EXPECT_EQ(choice.of("conv1.weight").text(), R"({"feedback":false,"name":"one_bit"})");
  EXPECT_EQ(choice.of("norm.weight").chosen.name, "bf16");
  EXPECT_EQ(choice.layer("norm.weight"), nullptr);
  EXPECT_FALSE(choice.none());
  EXPECT_TRUE(CodecChoice::parse("{layers: [{name: a, codec: fp16}]}").of("b").none());
  for (const char* wrong : {"{layers: [{name: a, codec: bits}]}", "{layers: [{name: a}]}", "{layers: a, else: fp16}",
                            "{layers: [], name: fp16}", "{layers: [{name: a, codec: fp16, share: 1}]}"})
    EXPECT_THROW(CodecChoice::parse(wrong), ConfigError) << wrong;
}

// Error of each of two ranks that reduce nine values, each by its own codec.
std::vector<std::string> errors_of_two(const std::string& first, const std::string& second) {
  return errors_of(make_thread_comms(2), [&](Comm& comm) {
    laws::CodedWorld(comm, comm.rank() == 0 ? first : second, {{9}}).reduce({laws::drawn(9, comm.rank(), 0)});
  });
}

TEST(GatheredCodecs, OfRanksWithOtherOptionsAreRefusedOnAllRanks) {
  for (const std::string& error : errors_of_two("{name: top_k, share: 0.3}", "{name: top_k, share: 0.9}"))
    EXPECT_TRUE(
        contains(error, "at most 7 words of 'law', as rank 0 does, got 17 of at most 17 from rank 1: do codec"));
  for (const std::string& error : errors_of_two("{name: top_k, share: 0.3}", "{name: top_k, share: 0.3}"))
    EXPECT_EQ(error, "") << "control";
}

// Both announce 11 words at most; what is an index to one is a float to the other.
TEST(GatheredCodecs, OfOtherFormsAreRefusedByEachRank) {
  const auto errors = errors_of_two("{name: threshold, threshold: 1.0e-9}", "{name: top_k, share: 0.5}");
  EXPECT_TRUE(contains(errors[0], "in the form of this rank's codec, got others from rank 1: do codec options"));
  EXPECT_TRUE(contains(errors[1], "in the form of this rank's codec, got others from rank 0: do codec options"));
}

TEST(GatheredCodecs, RefuseTensorsWhoseIndicesDoNotFitIntoAWord) {
  const std::int64_t large = std::int64_t{1} << 31;
  for (const char* name : {"threshold", "top_k"}) {
    const CodecPtr codec = CodecChoice::parse(name).make();
    const auto expect_refused = [&](const auto& call) {
      try {
        call();
        ADD_FAILURE() << name;
      } catch (const Error& error) {
        EXPECT_TRUE(contains(error.what(), "at most 2147483647 values for top_k and threshold, got 2147483648"));
      }
    };
    expect_refused([&] { codec->states({large / 2, 2}); });
    expect_refused([&] { codec->scratch_bytes(std::vector<CodedShape>{{1, 5}, {large / 2, 2}}, 0, 2); });
    EXPECT_EQ(codec->states({large - 1})[0].shape, (Shape{large - 1})) << "control";
  }
}

TEST(LowRank, ProductsAreThoseOfPlainLoopsAndVectorsBecomeOrthonormal) {
  const CodedShape shape{7, 45};
  const auto m = drawn_values(7 * 45, 1), q = drawn_values(2 * 45, 2);
  std::vector<float> p(2 * 7), back(2 * 45), product_of(7 * 45);
  times_rows(shape, 2, m.data(), q.data(), p.data());
  times_columns(shape, 2, m.data(), p.data(), back.data());
  product(shape, 2, p.data(), q.data(), product_of.data());
  for (std::size_t l = 0; l < 7; ++l) {
    for (std::size_t k = 0; k < 2; ++k) {
      double sum = 0;
      for (std::size_t i = 0; i < 45; ++i)
        sum += static_cast<double>(m[l * 45 + i]) * static_cast<double>(q[k * 45 + i]);
      EXPECT_NEAR(static_cast<double>(p[k * 7 + l]), sum, 1e-4);
    }
    for (std::size_t i = 0; i < 45; ++i) EXPECT_NEAR(product_of[l * 45 + i], p[l] * q[i] + p[7 + l] * q[45 + i], 1e-4);
  }
  for (std::size_t i = 0; i < 45; ++i) {
    float sum = 0;
    for (std::size_t l = 0; l < 7; ++l) sum += m[l * 45 + i] * p[l];
    EXPECT_NEAR(back[i], sum, 1e-3);
  }
  std::vector<float> three(3 * 7);
  std::copy(p.begin(), p.end(), three.begin());
  for (std::size_t i = 0; i < 7; ++i) three[14 + i] = 2 * p[i] - p[7 + i];  // nothing new
  orthonormalise(3, 7, three.data());
  for (std::size_t a = 0; a < 3; ++a) {
    for (std::size_t b = 0; b < 3; ++b) {
      float dot = 0;
      for (std::size_t i = 0; i < 7; ++i) dot += three[a * 7 + i] * three[b * 7 + i];
      EXPECT_NEAR(dot, a == b && a < 2 ? 1.0F : 0.0F, 1e-5F) << a << " and " << b;
    }
  }
}

}  // namespace
}  // namespace starling::dist
