// Collective algorithms: steps and bytes counted from their schedules equal the formulas, for worlds of 1 to 9 ranks
// and counts that do not divide evenly; and the results are right.
#include <bit>
#include <cmath>
#include <set>

#include "dist/comm_worlds.h"
#include "dist/schedule_world.h"

namespace starling::dist {
namespace {

using Buffers = std::vector<std::vector<std::int64_t>>;

std::vector<std::int64_t> counts_for(int world) { return {0, 1, world - 1, world, 1'000'000}; }

std::int64_t value(int rank, std::int64_t i) { return (rank + 1) * 1'000'003 + i * 17; }

Buffers filled(int world, std::int64_t count) {
  Buffers buffers(static_cast<std::size_t>(world), std::vector<std::int64_t>(static_cast<std::size_t>(count)));
  for (int r = 0; r < world; ++r)
    for (std::int64_t i = 0; i < count; ++i)
      buffers[static_cast<std::size_t>(r)][static_cast<std::size_t>(i)] = value(r, i);
  return buffers;
}

std::vector<int> two_by_two(int world) {  // hosts of two ranks, the last may have one
  std::vector<int> hosts;
  for (int r = 0; r < world; ++r) hosts.push_back(r / 2);
  return hosts;
}

struct AlgorithmCase {
  std::string name;
  CommOp op;
  int world;
};

void PrintTo(const AlgorithmCase& c, std::ostream* out) { *out << c.name << " " << name(c.op) << " P" << c.world; }

// Algorithms of those ops, over 1 to 9 ranks.
std::vector<AlgorithmCase> cases_of(const std::set<CommOp>& ops) {
  std::vector<AlgorithmCase> cases;
  for (const Algorithm& algorithm : algorithms()) {
    for (const auto& [op, make] : algorithm.makers) {
      if (!ops.contains(op)) continue;
      for (int world = 1; world <= 9; ++world) cases.push_back({std::string(algorithm.name), op, world});
    }
  }
  return cases;
}

std::string name_of(const ::testing::TestParamInfo<AlgorithmCase>& info) {
  return info.param.name + "_" + std::string(name(info.param.op)) + "_P" + std::to_string(info.param.world);
}

const std::set<CommOp> kInPieces{CommOp::all_gather, CommOp::reduce_scatter, CommOp::gather, CommOp::scatter};
const std::set<CommOp> kMoving{CommOp::all_gather, CommOp::reduce_scatter, CommOp::gather,   CommOp::scatter,
                               CommOp::all_reduce, CommOp::all_to_all,     CommOp::broadcast};

class Schedules : public ::testing::TestWithParam<AlgorithmCase> {
 protected:
  static int world() { return GetParam().world; }
  static const Algorithm& algorithm() { return algorithm_named(GetParam().name, GetParam().op); }
  ScheduleRequest request(std::int64_t count, int root = 0) const {
    return {.op = GetParam().op,
            .size = world(),
            .count = count,
            .element_bytes = 8,
            .root = root,
            .segment_bytes = 80'000,
            .hosts = hosts_};
  }
  std::vector<int> hosts_ = two_by_two(world());
};

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

// Expected recv buffer of rank r. counts: per rank's piece, or one for all.
std::vector<std::int64_t> expected(CommOp op, int world, int rank, const std::vector<std::int64_t>& counts, int root) {
  std::vector<std::int64_t> result;
  std::int64_t begin = 0;
  for (int r = 0; r < rank && index(r) < counts.size(); ++r) begin += counts[index(r)];
  const auto sum = [&](std::int64_t i) {
    std::int64_t all = 0;
    for (int r = 0; r < world; ++r) all += value(r, i);
    return all;
  };
  switch (op) {
    case CommOp::all_reduce:
      for (std::int64_t i = 0; i < counts[0]; ++i) result.push_back(sum(i));
      break;
    case CommOp::reduce_scatter:
      for (std::int64_t i = 0; i < counts[index(rank)]; ++i) result.push_back(sum(begin + i));
      break;
    case CommOp::broadcast:
      for (std::int64_t i = 0; i < counts[0]; ++i) result.push_back(value(root, i));
      break;
    case CommOp::scatter:
      for (std::int64_t i = 0; i < counts[index(rank)]; ++i) result.push_back(value(root, begin + i));
      break;
    case CommOp::gather:
      if (rank != root) break;
      [[fallthrough]];
    case CommOp::all_gather:
      for (int r = 0; r < world; ++r)
        for (std::int64_t i = 0; i < counts[index(r)]; ++i) result.push_back(value(r, i));
      break;
    case CommOp::all_to_all:
      for (int r = 0; r < world; ++r)
        for (std::int64_t i = 0; i < counts[index(r)]; ++i) result.push_back(value(r, rank * counts[index(r)] + i));
      break;
    default: break;
  }
  return result;
}

std::int64_t total(const std::vector<std::int64_t>& counts) {
  std::int64_t sum = 0;
  for (std::int64_t c : counts) sum += c;
  return sum;
}

void run_and_compare(const Algorithm& algorithm, ScheduleRequest request, const std::vector<std::int64_t>& counts) {
  const int world = request.size;
  const std::int64_t whole = total(counts);
  Buffers send = filled(world, request.op == CommOp::all_reduce ? counts[0] : whole), recv(index(world));
  for (int r = 0; r < world; ++r) {
    const bool pieces = request.op == CommOp::reduce_scatter || request.op == CommOp::scatter;
    const bool all =
        request.op == CommOp::all_gather || request.op == CommOp::gather || request.op == CommOp::all_to_all;
    recv[index(r)].assign(index(all ? whole : pieces ? counts[index(r)] : counts[0]), -1);
    if (request.op == CommOp::broadcast) recv[index(r)] = filled(world, counts[0])[index(r)];
  }
  const Buffers before = send;
  ScheduleWorld simulated(algorithm, request);
  simulated.run(send, recv);
  EXPECT_EQ(send, before) << "what is sent has been changed";
  for (int r = 0; r < world; ++r) {
    auto& got = recv[index(r)];
    if (request.op == CommOp::gather && r != request.root) got.clear();
    EXPECT_EQ(got, expected(request.op, world, r, counts, request.root)) << "rank " << r;
  }
}

TEST_P(Schedules, ComputeTheirOpFromEveryRoot) {
  for (std::int64_t count : {0, 1, world() - 1, world(), 1009}) {
    for (int root = 0; root < (has_root(GetParam().op) ? world() : 1); ++root) {
      SCOPED_TRACE(std::to_string(count) + " elements, root " + std::to_string(root));
      run_and_compare(algorithm(), request(count, root), std::vector<std::int64_t>(index(world()), count));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Schedules, ::testing::ValuesIn(cases_of(kMoving)), name_of);

class SchedulesInPieces : public Schedules {};
INSTANTIATE_TEST_SUITE_P(All, SchedulesInPieces, ::testing::ValuesIn(cases_of(kInPieces)), name_of);

TEST_P(SchedulesInPieces, CutUnevenPieces) {
  const CommOp op = GetParam().op;
  std::vector<std::int64_t> counts;
  for (int r = 0; r < world(); ++r) counts.push_back(r % 3 == 1 ? 0 : 5 + 11 * r);
  for (int root = 0; root < (has_root(op) ? world() : 1); ++root) {
    ScheduleRequest uneven = request(total(counts), root);
    uneven.counts = counts;
    run_and_compare(algorithm(), uneven, counts);
  }
}

class SchedulesOfReductions : public Schedules {};
INSTANTIATE_TEST_SUITE_P(All, SchedulesOfReductions, ::testing::ValuesIn(cases_of({CommOp::all_reduce})), name_of);

TEST_P(SchedulesOfReductions, WorkInPlaceAsWell) {
  for (std::int64_t count : {1, world() - 1, world(), 1009}) {
    Buffers both = filled(world(), count);
    ScheduleWorld simulated(algorithm(), request(count));
    simulated.run(both, both);
    for (int r = 0; r < world(); ++r)
      EXPECT_EQ(both[index(r)], expected(CommOp::all_reduce, world(), r, {count}, 0)) << count << " on rank " << r;
  }
}

// ---- laws ----

constexpr std::int64_t kBytes = 4;

class LawsOf : public ::testing::TestWithParam<int> {
 protected:
  static int world() { return GetParam(); }
  static std::uint64_t others() { return static_cast<std::uint64_t>(world() - 1); }
  static ScheduleWorld make(std::string_view algorithm, CommOp op, std::int64_t count) {
    return {algorithm_named(algorithm, op), {.op = op, .size = world(), .count = count, .element_bytes = kBytes}};
  }
  // Number of elements in piece k of count.
  static std::uint64_t piece(std::int64_t count, int k) {
    const std::int64_t q = count / world(), rest = count % world();
    return static_cast<std::uint64_t>(q + (rest * (k + 1) / world() - rest * k / world()));
  }
};

INSTANTIATE_TEST_SUITE_P(Worlds, LawsOf, ::testing::Range(1, 10), ::testing::PrintToStringParamName());

TEST_P(LawsOf, RingTakesTwicePMinusOneStepsAndSendsTwicePMinusOneOverPOfTheBuffer) {
  for (std::int64_t count : counts_for(world())) {
    const ScheduleWorld ring = make("ring", CommOp::all_reduce, count);
    for (int r = 0; r < world(); ++r) {
      const Traffic t = ring.traffic(r);
      EXPECT_EQ(t.steps, 2 * others());
      // All but one piece, twice: without the piece that ends here, and without the one the next rank owns.
      const std::uint64_t n = static_cast<std::uint64_t>(count);
      const std::uint64_t sent = world() == 1 ? 0 : 2 * n - piece(count, r) - piece(count, (r + 1) % world());
      EXPECT_EQ(t.bytes_sent, sent * kBytes) << count << " on rank " << r;
      if (count % world() != 0) continue;
      EXPECT_EQ(t.bytes_sent, 2 * others() * n / static_cast<std::uint64_t>(world()) * kBytes);
    }
    EXPECT_EQ(ring.bytes_sent(), 2 * others() * static_cast<std::uint64_t>(count * kBytes));
  }
}

TEST_P(LawsOf, RingReduceScatterAndAllGatherTakeHalfOfAnAllReduce) {
  for (std::int64_t count : counts_for(world())) {
    for (CommOp op : {CommOp::reduce_scatter, CommOp::all_gather}) {
      const ScheduleWorld ring = make("ring", op, count);
      for (int r = 0; r < world(); ++r) {
        EXPECT_EQ(ring.traffic(r).steps, others());
        EXPECT_EQ(ring.traffic(r).bytes_sent, others() * static_cast<std::uint64_t>(count * kBytes));
      }
    }
  }
}

TEST_P(LawsOf, HalvingDoublingTakesTwiceLog2StepsAndAsManyBytesAsTheRing) {
  const bool power = std::has_single_bit(static_cast<unsigned>(world()));
  const auto cores = std::bit_floor(static_cast<unsigned>(world()));
  const std::uint64_t log2 = static_cast<std::uint64_t>(std::countr_zero(cores));
  for (std::int64_t count : counts_for(world())) {
    const ScheduleWorld w = make("halving_doubling", CommOp::all_reduce, count);
    const std::uint64_t n = static_cast<std::uint64_t>(count) * kBytes,
                        extras = static_cast<std::uint64_t>(world()) - cores;
    EXPECT_EQ(w.traffic(0).steps, 2 * log2 + (power ? 0 : 2));
    EXPECT_EQ(w.bytes_sent(), 2 * (cores - 1) * n + 2 * extras * n);
    if (!power || count % world() != 0) continue;
    for (int r = 0; r < world(); ++r)
      EXPECT_EQ(w.traffic(r).bytes_sent, 2 * others() * n / static_cast<std::uint64_t>(world()));
  }
}

TEST_P(LawsOf, RecursiveDoublingTakesLog2StepsOfTheWholeBuffer) {
  const bool power = std::has_single_bit(static_cast<unsigned>(world()));
  const auto cores = std::bit_floor(static_cast<unsigned>(world()));
  const std::uint64_t log2 = static_cast<std::uint64_t>(std::countr_zero(cores));
  for (std::int64_t count : counts_for(world())) {
    const ScheduleWorld w = make("recursive_doubling", CommOp::all_reduce, count);
    const std::uint64_t n = static_cast<std::uint64_t>(count) * kBytes,
                        extras = static_cast<std::uint64_t>(world()) - cores;
    EXPECT_EQ(w.traffic(0).steps, log2 + (power ? 0 : 2));
    EXPECT_EQ(w.bytes_sent(), cores * log2 * n + 2 * extras * n);
    if (!power) continue;
    for (int r = 0; r < world(); ++r) EXPECT_EQ(w.traffic(r).bytes_sent, n * log2);
  }
}

TEST_P(LawsOf, DirectMovesAsMuchAsTheRingInTwoStepsAndOneShotAllInOne) {
  for (std::int64_t count : counts_for(world())) {
    const std::uint64_t n = static_cast<std::uint64_t>(count) * kBytes;
    const ScheduleWorld direct = make("direct", CommOp::all_reduce, count),
                        shot = make("one_shot", CommOp::all_reduce, count);
    EXPECT_EQ(direct.traffic(0).steps, world() == 1 ? 0u : 2u);
    EXPECT_EQ(direct.bytes_sent(), 2 * others() * n);
    EXPECT_EQ(shot.traffic(0).steps, world() == 1 ? 0u : 1u);
    for (int r = 0; r < world(); ++r) EXPECT_EQ(shot.traffic(r).bytes_sent, others() * n);
  }
}

// A chain of ranks has links between neighbours only; counts bytes per link and direction.
TEST_P(LawsOf, LinearCarriesExactlyNBytesPerLinkAndDirectionAndTheRingDoesNot) {
  for (std::int64_t count : counts_for(world())) {
    const std::int64_t n = count * kBytes;
    const ScheduleWorld linear = make("linear", CommOp::all_reduce, count);
    EXPECT_EQ(linear.traffic(0).steps, 2 * others());
    for (const auto& [pair, bytes] : linear.flows()) {
      EXPECT_EQ(std::abs(pair.first - pair.second), 1) << "only neighbours have a link";
      EXPECT_EQ(bytes, n) << pair.first << " to " << pair.second << " of " << world();
    }
    EXPECT_EQ(linear.flows().size(), count == 0 ? 0 : 2 * others());
    if (world() < 3 || count < world()) continue;
    // On a chain, the ring's connection from the last rank to the first crosses every link.
    const ScheduleWorld ring = make("ring", CommOp::all_reduce, count);
    std::map<std::pair<int, int>, std::int64_t> links;
    for (const auto& [pair, bytes] : ring.flows()) {
      const int step = pair.second > pair.first ? 1 : -1;
      for (int hop = pair.first; hop != pair.second; hop += step) links[{hop, hop + step}] += bytes;
    }
    for (const auto& [pair, bytes] : links) EXPECT_GT(bytes, n) << pair.first << " to " << pair.second;
  }
}

TEST_P(LawsOf, LinearNeverPutsTwoFlowsOnOneLinkDirectionAtOnce) {
  const ScheduleWorld linear = make("linear", CommOp::all_reduce, 1'000'000);
  for (int r = 0; r < world(); ++r) {
    for (const Round& round : linear.schedules[index(r)].rounds) {
      std::set<int> to;
      for (const ScheduledTransfer& t : round.transfers) {
        if (t.sends) {
          EXPECT_TRUE(to.insert(t.peer).second) << "rank " << r << " sends twice to " << t.peer;
        }
      }
    }
  }
}

TEST_P(LawsOf, TreesTakeLog2StepsAndReachEveryRankOnce) {
  const std::uint64_t log2 = world() == 1 ? 0 : std::bit_width(static_cast<unsigned>(world() - 1));
  for (std::int64_t count : counts_for(world())) {
    const std::uint64_t n = static_cast<std::uint64_t>(count) * kBytes;
    EXPECT_EQ(make("binomial", CommOp::broadcast, count).traffic(0).steps, log2);
    EXPECT_EQ(make("binomial", CommOp::broadcast, count).bytes_sent(), others() * n);
    EXPECT_EQ(make("binomial", CommOp::gather, count).traffic(0).bytes_received, others() * n);
    EXPECT_EQ(make("binomial", CommOp::scatter, count).traffic(0).bytes_sent, others() * n);
    EXPECT_EQ(make("dissemination", CommOp::all_gather, count).traffic(0).steps, log2);
    EXPECT_EQ(make("dissemination", CommOp::all_gather, count).traffic(0).bytes_sent, others() * n);
    EXPECT_EQ(make("pairwise", CommOp::all_to_all, count).traffic(0).steps, others());
    EXPECT_EQ(make("pairwise", CommOp::all_to_all, count).traffic(0).bytes_sent, others() * n);
  }
  EXPECT_EQ(make("dissemination", CommOp::barrier, 0).traffic(0).steps, log2);
}

TEST_P(LawsOf, ChainSendsEverySegmentOnceInPMinusTwoPlusSegmentsSteps) {
  for (std::int64_t count : counts_for(world())) {
    const ScheduleWorld chain = make("chain", CommOp::broadcast, count);
    const std::uint64_t n = static_cast<std::uint64_t>(count) * kBytes;
    const std::uint64_t segments = std::max<std::uint64_t>(1, (n + 256 * 1024 - 1) / (256 * 1024));
    EXPECT_EQ(chain.traffic(0).steps, world() == 1 ? 0 : others() - 1 + segments);
    for (int r = 0; r < world(); ++r) EXPECT_EQ(chain.traffic(r).bytes_sent, r + 1 == world() ? 0 : n);
  }
}

TEST_P(LawsOf, ABarrierEndsNowhereBeforeEveryoneHasBegun) {
  // Ranks that each rank has heard of, directly or through others.
  const ScheduleWorld barrier = make("dissemination", CommOp::barrier, 0);
  std::vector<std::set<int>> heard(index(world()));
  for (int r = 0; r < world(); ++r) heard[index(r)].insert(r);
  for (std::size_t round = 0; round < barrier.schedules[0].rounds.size(); ++round) {
    const auto before = heard;
    for (int r = 0; r < world(); ++r)
      for (const ScheduledTransfer& t : barrier.schedules[index(r)].rounds[round].transfers)
        if (!t.sends) heard[index(r)].insert(before[index(t.peer)].begin(), before[index(t.peer)].end());
  }
  for (const auto& who : heard) EXPECT_EQ(static_cast<int>(who.size()), world());
}

TEST(Hierarchical, SendsBetweenHostsOnlyTheShardOfEachRank) {
  for (int per_host : {1, 2, 3, 4}) {
    for (int hosts_count : {2, 4}) {
      const int world = per_host * hosts_count;
      std::vector<int> hosts;
      for (int r = 0; r < world; ++r) hosts.push_back(r / per_host);
      const std::int64_t count = 12 * 4 * 100, n = count * kBytes;
      const ScheduleRequest request{
          .op = CommOp::all_reduce, .size = world, .count = count, .element_bytes = kBytes, .hosts = hosts};
      const auto flows = ScheduleWorld(hierarchical_algorithm(), request).flows();
      for (int r = 0; r < world; ++r) {
        std::int64_t out = 0, inside = 0;
        for (const auto& [pair, bytes] : flows)
          if (pair.first == r) (hosts[index(pair.second)] == hosts[index(r)] ? inside : out) += bytes;
        EXPECT_EQ(out, 2 * (hosts_count - 1) * n / per_host / hosts_count) << world << " ranks, rank " << r;
        EXPECT_EQ(inside, 2 * (per_host - 1) * n / per_host);
      }
      // The control: a ring that visits hosts in turn sends nearly everything between hosts.
      std::vector<int> scattered;
      for (int r = 0; r < world; ++r) scattered.push_back(r % hosts_count);
      if (per_host == 1) continue;
      std::int64_t across = 0;
      for (const auto& [pair, bytes] : ScheduleWorld(ring_algorithm(), request).flows())
        if (scattered[index(pair.first)] != scattered[index(pair.second)] && pair.first == 0) across += bytes;
      EXPECT_GT(across, 2 * (hosts_count - 1) * n / per_host / hosts_count);
    }
  }
}

TEST(Hierarchical, NeedsToKnowTheHosts) {
  EXPECT_THROW((void)make_schedule(hierarchical_algorithm(), {.op = CommOp::all_reduce, .size = 4, .count = 4}), Error);
}

TEST(Algorithms, AreFoundByNameAndOthersAreRefusedWithAList) {
  EXPECT_EQ(algorithm_named("ring", CommOp::all_reduce).name, "ring");
  try {
    (void)algorithm_named("rings", CommOp::all_reduce);
    FAIL();
  } catch (const Error& error) {
    EXPECT_TRUE(contains(error.what(), "ring, hierarchical, linear"));
  }
  EXPECT_THROW((void)algorithm_named("chain", CommOp::all_reduce), Error);
}

}  // namespace
}  // namespace starling::dist
