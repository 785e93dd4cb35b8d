// Simulates the schedules of a whole world, round by round, and checks the invariants of all schedules: data sent in a
// round is received in the same round of the peer, in order and of the same size, and nothing is read and written at
// once.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "starling/dist/comm/algorithms/algorithms.h"

namespace starling::dist {

class ScheduleWorld {
 public:
  ScheduleWorld(const Algorithm& algorithm, ScheduleRequest request) : request_(request) {
    for (int r = 0; r < request.size; ++r) {
      request.rank = r;
      schedules.push_back(make_schedule(algorithm, request));
    }
  }

  // Elements are 64-bit sums; buffers by rank. In place: recv is used for both.
  void run(std::vector<std::vector<std::int64_t>>& send, std::vector<std::vector<std::int64_t>>& recv) {
    for (const Schedule& s : schedules) scratch_.emplace_back(static_cast<std::size_t>(s.scratch_bytes / 8), -777);
    send_ = &send, recv_ = &recv;
    for (int r = 0; r < request_.size; ++r) work(r, at(schedules, r).first);
    for (std::size_t round = 0; round < schedules[0].rounds.size(); ++round) {
      exchange(round);
      for (int r = 0; r < request_.size; ++r) work(r, at(schedules, r).rounds[round].then);
    }
  }

  // Elements sent from each rank to each other.
  std::map<std::pair<int, int>, std::int64_t> flows() const {
    std::map<std::pair<int, int>, std::int64_t> bytes;
    for (int r = 0; r < request_.size; ++r)
      for (const Round& round : at(schedules, r).rounds)
        for (const ScheduledTransfer& t : round.transfers)
          if (t.sends) bytes[{r, t.peer}] += t.block.bytes;
    return bytes;
  }

  Traffic traffic(int rank) const { return traffic_of(at(schedules, rank)); }
  std::uint64_t bytes_sent() const {
    std::uint64_t sum = 0;
    for (const Schedule& s : schedules) sum += traffic_of(s).bytes_sent;
    return sum;
  }

  std::vector<Schedule> schedules;

 private:
  template <class T>
  static T& at(std::vector<T>& v, int i) {
    return v[static_cast<std::size_t>(i)];
  }
  template <class T>
  static const T& at(const std::vector<T>& v, int i) {
    return v[static_cast<std::size_t>(i)];
  }

  std::int64_t* address(int rank, const Block& block) {
    auto& buffer = block.buffer == ScheduleBuffer::send   ? at(*send_, rank)
                   : block.buffer == ScheduleBuffer::recv ? at(*recv_, rank)
                                                          : at(scratch_, rank);
    EXPECT_EQ(block.offset % 8, 0);
    EXPECT_LE(static_cast<std::size_t>(block.offset + block.bytes), buffer.size() * 8) << "beyond the buffer";
    return buffer.data() + block.offset / 8;
  }

  void exchange(std::size_t round) {
    std::map<std::pair<int, int>, std::vector<std::vector<std::int64_t>>> wires;
    for (int r = 0; r < request_.size; ++r) {
      ASSERT_EQ(at(schedules, r).rounds.size(), schedules[0].rounds.size()) << "rank " << r << " has other rounds";
      for (const ScheduledTransfer& t : at(schedules, r).rounds[round].transfers) {
        EXPECT_GT(t.block.bytes, 0);
        const std::int64_t* from = address(r, t.block);
        if (t.sends) wires[{r, t.peer}].emplace_back(from, from + t.block.bytes / 8);
      }
    }
    for (int r = 0; r < request_.size; ++r) {
      for (const ScheduledTransfer& t : at(schedules, r).rounds[round].transfers) {
        if (t.sends) continue;
        auto& wire = wires[{t.peer, r}];
        ASSERT_FALSE(wire.empty()) << "rank " << r << " expects from " << t.peer << " in round " << round;
        ASSERT_EQ(static_cast<std::int64_t>(wire[0].size() * 8), t.block.bytes) << "round " << round;
        std::copy(wire[0].begin(), wire[0].end(), address(r, t.block));
        wire.erase(wire.begin());
      }
    }
    for (const auto& [pair, wire] : wires) EXPECT_TRUE(wire.empty()) << pair.first << " to " << pair.second;
  }

  void work(int rank, const std::vector<LocalWork>& works) {
    for (const LocalWork& work : works) {
      std::vector<std::int64_t> sum(static_cast<std::size_t>(work.to.bytes / 8), 0);
      for (const Block& from : work.from) {
        EXPECT_EQ(from.bytes, work.to.bytes);
        const std::int64_t* data = address(rank, from);
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += data[i];
      }
      std::copy(sum.begin(), sum.end(), address(rank, work.to));
      if (work.completes) ++completed_[rank];
    }
  }

  ScheduleRequest request_;
  std::vector<std::vector<std::int64_t>> scratch_;
  std::vector<std::vector<std::int64_t>>*send_ = nullptr, *recv_ = nullptr;
  std::map<int, int> completed_;
};

}  // namespace starling::dist
