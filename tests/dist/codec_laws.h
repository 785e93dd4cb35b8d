// Laws of codecs, as one rank of a world sees them; strategy_laws.h runs them over every world. Every rank draws the
// gradients of all ranks, so that each can tell what the sums must be.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "starling/dist/codec/codec_kinds.h"

namespace starling::laws {

using Values = std::vector<float>;

// Gradients of one rank in one step, of a heavy-tailed distribution.
inline Values drawn(std::size_t n, int rank, int step) {
  std::mt19937 generator(static_cast<unsigned>(1000 * step + rank));
  std::normal_distribution<float> normal;
  Values values(n);
  for (float& value : values) value = std::pow(normal(generator), 3.0F);
  return values;
}

// Tensors of one codec on this rank, with their states and sums.
class CodedWorld {
 public:
  CodedWorld(Comm& comm, const std::string& codec, std::vector<Shape> shapes)
      : comm_(comm), codec_(dist::CodecChoice::parse(codec).make()), shapes_(std::move(shapes)) {
    std::vector<dist::CodedShape> coded;
    for (const Shape& shape : shapes_) {
      coded.push_back(dist::coded_shape(shape));
      sums.emplace_back(static_cast<std::size_t>(shape.numel()));
      total.emplace_back(sums.back().size());
      given.emplace_back(sums.back().size());
      states.emplace_back();
      for (const auto& state : codec_->states(shape)) {
        states.back().emplace_back(static_cast<std::size_t>(state.shape.numel()));
        if (state.begin) state.begin(states.back().back());
      }
    }
    // Memory behind the scratch memory must stay as it is.
    bytes_ = codec_->scratch_bytes(coded, comm.rank(), comm.size());
    scratch_.resize(bytes_ + kGuard, std::byte{77});
  }

  // One step of drawn gradients; `total` and `given` add up what all steps gave and were given.
  void step(int number) {
    std::vector<Values> own;
    for (const Shape& shape : shapes_)
      own.push_back(drawn(static_cast<std::size_t>(shape.numel()), comm_.rank(), number));
    reduce(own);
    for (std::size_t t = 0; t < shapes_.size(); ++t) {
      for (int rank = 0; rank < comm_.size(); ++rank) add(drawn(given[t].size(), rank, number), given[t]);
      add(sums[t], total[t]);
    }
  }

  void reduce(const std::vector<Values>& own) {
    std::vector<dist::CodedTensor> tensors;
    std::vector<std::vector<float*>> places(shapes_.size());
    for (std::size_t t = 0; t < shapes_.size(); ++t) {
      for (Values& state : states[t]) places[t].push_back(state.data());
      tensors.push_back({dist::coded_shape(shapes_[t]), own[t].data(), sums[t].data(), places[t]});
    }
    codec_->reduce(tensors, comm_, scratch_.data(), "law");
    for (std::size_t i = bytes_; i < scratch_.size(); ++i) ASSERT_EQ(scratch_[i], std::byte{77}) << "beyond scratch";
  }

  // Goes on by another codec with as many states.
  void go_on_by(const std::string& codec) {
    codec_ = dist::CodecChoice::parse(codec).make();
    std::vector<dist::CodedShape> coded;
    for (const Shape& shape : shapes_) coded.push_back(dist::coded_shape(shape));
    bytes_ = codec_->scratch_bytes(coded, comm_.rank(), comm_.size());
    scratch_.assign(bytes_ + kGuard, std::byte{77});
  }

  // Residuals of all ranks for a tensor in its first state, added up.
  std::vector<double> kept(std::size_t tensor) {
    if (states[tensor].empty()) return {};
    std::vector<double> all(states[tensor][0].begin(), states[tensor][0].end());
    comm_.all_reduce(all.data(), all.data(), static_cast<std::int64_t>(all.size()), DType::f64, ReduceOp::sum).wait();
    return all;
  }

  // Largest distance of total + kept from given, by the size of what was given.
  double lost(std::size_t tensor) {
    const auto kept_now = kept(tensor);
    double most = 0, size = 1;
    for (std::size_t i = 0; i < total[tensor].size(); ++i) {
      const double kept_here = kept_now.empty() ? 0 : kept_now[i];
      most = std::max(most, std::abs(total[tensor][i] + kept_here - given[tensor][i]));
      size = std::max(size, std::abs(given[tensor][i]));
    }
    return most / size;
  }
  // The same without what is kept.
  double behind(std::size_t tensor) const {
    double most = 0;
    for (std::size_t i = 0; i < total[tensor].size(); ++i)
      most = std::max(most, std::abs(total[tensor][i] - given[tensor][i]));
    return most;
  }

  std::vector<Values> sums;                 // of the last step
  std::vector<std::vector<double>> total;   // of all steps
  std::vector<std::vector<double>> given;   // of all ranks and steps
  std::vector<std::vector<Values>> states;  // by tensor
  static void add(const Values& from, std::vector<double>& to) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] += static_cast<double>(from[i]);
  }

 private:
  static constexpr std::size_t kGuard = 64;
  Comm& comm_;
  dist::CodecPtr codec_;
  std::vector<Shape> shapes_;
  std::size_t bytes_ = 0;
  std::vector<std::byte> scratch_;
};

// Bytes that all ranks have received while f ran, counted where they arrive.
template <class F>
std::uint64_t bytes_received(Comm& comm, F f) {
  const auto all = [&] {
    std::uint64_t bytes = 0;
    for (int op = 0; op < kCommOpCount; ++op) bytes += comm.journal().counters(static_cast<CommOp>(op)).bytes_received;
    return bytes;
  };
  const std::uint64_t before = all();
  f();
  auto moved = static_cast<std::int64_t>(all() - before);
  comm.all_reduce(&moved, &moved, 1, DType::i64, ReduceOp::sum).wait();
  return static_cast<std::uint64_t>(moved);
}

inline const std::vector<Shape>& odd_shapes() {
  static const std::vector<Shape> shapes{{13, 37}, {5}, {0}, {4, 3, 2}, {1}, {3, 130}};
  return shapes;
}

inline const char* const kCodecs[] = {
    "fp16", "bf16", "one_bit", "{name: top_k, share: 0.1}", "threshold", "{name: power_sgd, rank: 2}"};

// All ranks decode the same bytes, whatever the shapes.
inline void coded_sums_have_the_same_bits_on_all_ranks(Comm& comm) {
  for (const char* codec : kCodecs) {
    CodedWorld world(comm, codec, odd_shapes());
    for (int s = 0; s < 3; ++s) world.step(s);
    for (const Values& sum : world.sums) {
      Values first = sum;
      comm.broadcast(first.data(), static_cast<std::int64_t>(first.size()), DType::f32, 0).wait();
      EXPECT_EQ(first, sum) << codec;
    }
  }
}

inline void sixteen_bit_codecs_send_half_of_the_bytes(Comm& comm) {
  const std::int64_t n = 120 * comm.size();
  Values dense(static_cast<std::size_t>(n)), piece(static_cast<std::size_t>(n / comm.size()));
  const std::uint64_t whole = bytes_received(comm, [&] {
    comm.reduce_scatter(dense.data(), piece.data(), n / comm.size(), DType::f32, ReduceOp::sum).wait();
    comm.all_gather(piece.data(), dense.data(), n / comm.size(), DType::f32).wait();
  });
  for (const char* codec : {"fp16", "bf16"}) {
    CodedWorld world(comm, codec, {{8, n / 8}});
    EXPECT_EQ(2 * bytes_received(comm, [&] { world.step(1); }), whole) << codec;
    EXPECT_LT(world.lost(0), 0.01) << "rounded, nothing more";
    EXPECT_GT(world.lost(0), 0) << "control: rounded at all";
  }
  CodedWorld other(comm, "one_bit", {{8, n / 8}});
  EXPECT_LT(2 * bytes_received(comm, [&] { other.step(1); }), whole / 2)
      << "control: another codec sends another number";
}

// A bit for each value, whole bytes a line, and two floats a line: to the owner by P - 1 ranks, and back to them.
inline void one_bit_sends_a_bit_a_value_and_two_floats_a_line(Comm& comm) {
  const auto peers = static_cast<std::uint64_t>(comm.size() - 1);
  for (const Shape& shape : {Shape{12, 64}, Shape{7, 29}, Shape{333}}) {
    CodedWorld world(comm, "one_bit", {shape});
    const auto lines = static_cast<std::uint64_t>(shape.rank() == 1 ? 1 : shape[0]);
    const auto width = static_cast<std::uint64_t>(shape.numel()) / lines;
    EXPECT_EQ(bytes_received(comm, [&] { world.step(0); }), 2 * peers * lines * ((width + 7) / 8 + 8))
        << to_string(shape);
  }
}

// Two-stage 1-bit quantisation in plain loops, of all ranks at once. Rank r owns lines [r, r + 1) · lines / P.
class PlainOneBit {
 public:
  PlainOneBit(int ranks, std::size_t lines, std::size_t width)
      : ranks_(ranks),
        lines_(lines),
        width_(width),
        first(static_cast<std::size_t>(ranks), std::vector<double>(lines * width)),
        second(lines * width) {}

  std::vector<double> step(int number) {
    std::vector<std::vector<double>> terms;
    for (int rank = 0; rank < ranks_; ++rank) {
      const Values given = drawn(lines_ * width_, rank, number);
      terms.emplace_back(given.begin(), given.end());
    }
    std::vector<double> sums(lines_ * width_);
    for (std::size_t line = 0; line < lines_; ++line) {
      const auto owner = static_cast<int>(line * static_cast<std::size_t>(ranks_) / lines_);
      for (int rank = 0; rank < ranks_; ++rank) {
        auto& own = terms[static_cast<std::size_t>(rank)];
        if (rank != owner) quantise(own, first[static_cast<std::size_t>(rank)], line);
        for (std::size_t i = line * width_; i < (line + 1) * width_; ++i) sums[i] += own[i];
      }
      quantise(sums, second, line);
    }
    return sums;
  }

 private:
  // v + r becomes its quantised form, r the rest.
  void quantise(std::vector<double>& v, std::vector<double>& r, std::size_t line) const {
    double sum[2] = {}, count[2] = {};
    for (std::size_t i = line * width_; i < (line + 1) * width_; ++i) {
      r[i] += v[i];
      sum[r[i] >= 0 ? 1 : 0] += r[i];
      count[r[i] >= 0 ? 1 : 0] += 1;
    }
    for (std::size_t i = line * width_; i < (line + 1) * width_; ++i) {
      const int side = r[i] >= 0 ? 1 : 0;
      v[i] = sum[side] / count[side];
      r[i] -= v[i];
    }
  }

  int ranks_;
  std::size_t lines_, width_;

 public:
  std::vector<std::vector<double>> first;  // residuals of the first stage, by rank
  std::vector<double> second;              // of the second stage, on the owners
};

inline void one_bit_loses_nothing_in_both_stages(Comm& comm) {
  const auto lines = static_cast<std::size_t>(3 * comm.size()), width = std::size_t{70};
  const Shape shape{static_cast<std::int64_t>(lines), static_cast<std::int64_t>(width)};
  CodedWorld world(comm, "one_bit", {shape});
  PlainOneBit plain(comm.size(), lines, width);
  for (int s = 0; s < 4; ++s) {
    world.step(s);
    const auto expected = plain.step(s);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(static_cast<double>(world.sums[0][i]), expected[i], 1e-3) << "step " << s << " value " << i;
      const bool own =
          i / width * static_cast<std::size_t>(comm.size()) / lines == static_cast<std::size_t>(comm.rank());
      const double kept = own ? plain.second[i] : plain.first[static_cast<std::size_t>(comm.rank())][i];
      ASSERT_NEAR(static_cast<double>(world.states[0][0][i]), kept, 1e-3) << "kept of step " << s << " value " << i;
    }
  }
  EXPECT_LT(world.lost(0), 1e-5);
  EXPECT_GT(world.behind(0), 0.1) << "control: what was sent alone is something else";
  CodedWorld without(comm, "{name: one_bit, feedback: false}", {shape});
  for (int s = 0; s < 4; ++s) without.step(s);
  EXPECT_TRUE(without.states[0].empty());
  EXPECT_GT(without.behind(0), 1) << "control: without feedback it is gone";
}

inline void top_k_keeps_what_it_does_not_send(Comm& comm) {
  CodedWorld world(comm, "{name: top_k, share: 0.05}", odd_shapes());
  for (int s = 0; s < 5; ++s) world.step(s);
  for (std::size_t t = 0; t < odd_shapes().size(); ++t) EXPECT_LT(world.lost(t), 1e-5);
  EXPECT_GT(world.behind(0), 1) << "control: what was sent alone";
  const auto sent = [&](const Values& sums) {
    return std::count_if(sums.begin(), sums.end(), [](float v) { return v != 0; });
  };
  EXPECT_LE(sent(world.sums[0]), 24 * comm.size()) << "of 481 values, from each rank";
  CodedWorld all(comm, "{name: top_k, share: 1, momentum: 0.9}", odd_shapes());
  for (int s = 0; s < 3; ++s) all.step(s);
  for (std::size_t t = 0; t < odd_shapes().size(); ++t) EXPECT_LT(all.behind(t), 1e-3) << "all of them: dense";
}

// Momentum correction: the sum of all velocities u = m·u + g is sent or waits, if velocities are cleared where sent.
inline void top_k_conserves_the_velocities(Comm& comm) {
  const std::size_t n = 200;
  CodedWorld world(comm, "{name: top_k, share: 0.02, momentum: 0.8}", {{static_cast<std::int64_t>(n)}});
  std::vector<double> u(n), all_u(n), own_sent(n), before(n);
  for (int s = 0; s < 6; ++s) {
    const Values g = drawn(n, comm.rank(), s);
    world.reduce({g});
    for (std::size_t i = 0; i < n; ++i) {
      u[i] = 0.8 * u[i] + static_cast<double>(g[i]);
      all_u[i] += u[i];
      const double sent = before[i] + u[i] - static_cast<double>(world.states[0][0][i]);
      own_sent[i] += sent;
      before[i] = static_cast<double>(world.states[0][0][i]);
      if (before[i] == 0) u[i] = 0;
    }
    for (std::size_t i = 0; i < n; ++i) world.total[0][i] += static_cast<double>(world.sums[0][i]);
  }
  for (auto* sum : {&all_u, &own_sent})
    comm.all_reduce(sum->data(), sum->data(), static_cast<std::int64_t>(n), DType::f64, ReduceOp::sum).wait();
  const auto kept = world.kept(0);
  double most = 0;
  for (std::size_t i = 0; i < n; ++i) most = std::max(most, std::abs(world.total[0][i] + kept[i] - all_u[i]));
  EXPECT_LT(most, 1e-3);
  for (std::size_t i = 0; i < n; ++i) EXPECT_NEAR(own_sent[i], world.total[0][i], 1e-3);
}

inline void threshold_sends_the_threshold_and_keeps_the_rest(Comm& comm) {
  CodedWorld world(comm, "{name: threshold, threshold: 0.25}", odd_shapes());
  for (int s = 0; s < 5; ++s) world.step(s);
  for (std::size_t t = 0; t < odd_shapes().size(); ++t) {
    EXPECT_LT(world.lost(t), 1e-5);
    for (const float sum : world.sums[t]) EXPECT_EQ(std::remainder(sum, 0.25F), 0.0F) << "whole thresholds";
  }
  EXPECT_GT(world.behind(0), 1) << "control: what was sent alone";
  CodedWorld high(comm, "{name: threshold, threshold: 1000}", {{64}});
  const std::uint64_t nothing = bytes_received(comm, [&] { high.step(0); });
  CodedWorld low(comm, "{name: threshold, threshold: 1.0e-9}", {{64}});
  const std::uint64_t everything = bytes_received(comm, [&] { low.step(0); });
  EXPECT_EQ(everything - nothing, static_cast<std::uint64_t>(comm.size() * (comm.size() - 1)) * 64 * 4)
      << "a word a value";
}

inline void power_sgd_of_full_rank_is_dense(Comm& comm) {
  for (const Shape& shape : {Shape{6, 40}, Shape{40, 6}, Shape{9, 3, 3}}) {
    CodedWorld full(comm, "{name: power_sgd, rank: 16}", {shape, {11}});
    CodedWorld thin(comm, "{name: power_sgd, rank: 1}", {shape, {11}});
    for (int s = 0; s < 3; ++s) {
      full.step(s);
      thin.step(s);
    }
    EXPECT_LT(full.behind(0), 1e-2) << to_string(shape);
    EXPECT_LT(full.behind(1), 1e-4) << "vectors travel as they are";
    EXPECT_GT(thin.behind(0), 0.5) << "control: of rank 1";
    EXPECT_LT(thin.lost(0), 1e-4) << "kept for later";
    Values q = thin.states[0][1];
    comm.broadcast(q.data(), static_cast<std::int64_t>(q.size()), DType::f32, 0).wait();
    EXPECT_EQ(q, thin.states[0][1]) << "the same Q everywhere";
  }
}

// A gradient that is not finite on one rank is not finite for any: all skip the step, or stop.
inline void codecs_hide_no_value_that_is_not_finite(Comm& comm) {
  for (const char* codec : kCodecs) {
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      CodedWorld world(comm, codec, {{6, 50}});
      Values own = drawn(300, comm.rank(), 0);
      world.reduce({own});
      const auto finite = [&] {
        return std::all_of(world.sums[0].begin(), world.sums[0].end(), [](float v) { return std::isfinite(v); });
      };
      EXPECT_TRUE(finite()) << "control: " << codec;
      if (comm.rank() == comm.size() - 1) own[123] = bad;
      world.reduce({own});
      EXPECT_FALSE(finite()) << codec << " with " << bad;
    }
  }
}

}  // namespace starling::laws
