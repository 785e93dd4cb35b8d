// Gloo's connections with the ranks as threads of this process; tests/dist/processes has them as processes.
#include <gtest/gtest.h>

#include <atomic>

#include "dist/transport_conformance.h"
#include "starling/dist/comm/transport/gloo_comm.h"

namespace starling::dist {
namespace {

using namespace transport_checks;

std::vector<std::string> errors_of_ranks(int world, const std::function<void(Transport&)>& body) {
  const auto store = make_memory_store();
  return errors_of_threads(world, [&](int rank) {
    const auto transport = make_gloo_transport(store, {.rank = rank, .size = world});
    body(*transport);
  });
}

void expect_well(const std::vector<std::string>& errors) {
  for (std::size_t rank = 0; rank < errors.size(); ++rank) EXPECT_EQ(errors[rank], "") << "rank " << rank;
}

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

class GlooTransport : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Worlds, GlooTransport, ::testing::Range(1, 10));

TEST_P(GlooTransport, DoesWhatEveryTransportMust) {
  expect_well(errors_of_ranks(GetParam(), [](Transport& transport) {
    for (const Check& one : all_checks()) one.run(transport);
  }));
}

TEST(GlooTransportSizes, LargeMessagesCross) {
  expect_well(errors_of_ranks(2, [](Transport& transport) { large_messages_cross(transport, std::size_t{16} << 20); }));
}

TEST(GlooTransportFailures, AnAbortIsHeardByAllWithItsReason) {
  const auto errors = errors_of_ranks(3, [](Transport& transport) {
    Bytes data(1000);
    if (transport.rank() == 1) {
      std::this_thread::sleep_for(milliseconds(20));
      transport.abort("rank 1 is out of paper");
      transport.send(0, 1, data.data(), data.size());
    }
    dist::finish(transport, {transport.recv((transport.rank() + 1) % 3, 1, data.data(), data.size())});
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "rank 1 is out of paper");
}

TEST(GlooTransportFailures, AnAbortGivesBuffersBackInTheMiddleOfALargeMessage) {
  const auto errors = errors_of_ranks(2, [](Transport& transport) {
    const int peer = 1 - transport.rank();
    auto out = std::make_unique<Bytes>(std::size_t{32} << 20), in = std::make_unique<Bytes>(std::size_t{32} << 20);
    try {
      const auto sent = transport.send(peer, 1, out->data(), out->size());
      const auto received = transport.recv(peer, 1, in->data(), in->size());
      if (transport.rank() == 0) transport.abort("enough");
      dist::finish(transport, {sent, received});
    } catch (const Error& error) {
      out.reset();
      in.reset();
      std::this_thread::sleep_for(milliseconds(20));  // a late write would be seen by ASan
      throw;
    }
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "enough");
}

TEST(GlooTransportFailures, ARankThatLeavesIsNamedByWhoNeedsItAndByNobodyElse) {
  std::atomic<bool> gone = false;
  const auto errors = errors_of_threads(3, [&, store = make_memory_store()](int rank) {
    auto transport = make_gloo_transport(store, {.rank = rank, .size = 3});
    exchange_all(*transport, 100, 1);
    if (rank == 2) {
      transport.reset();
      gone = true;
      return;
    }
    while (!gone) std::this_thread::sleep_for(milliseconds(1));
    Bytes data(10);
    const int peer = 1 - rank;
    dist::finish(*transport, {transport->send(peer, 2, data.data(), 10), transport->recv(peer, 2, data.data(), 10)});
    if (rank == 1) return;
    finish(*transport, {transport->recv(2, 3, data.data(), 10)});
  });
  EXPECT_TRUE(says(errors[0], "rank 2 has left the group 'world'")) << errors[0];
  EXPECT_EQ(errors[1], "");
  EXPECT_EQ(errors[2], "");
}

// The last message of a rank that leaves at once still arrives.
TEST(GlooTransportFailures, NothingSentIsLostByLeaving) {
  for (int round = 0; round < 5; ++round) {
    expect_well(errors_of_ranks(2, [](Transport& transport) {
      Bytes data = pattern(std::size_t{4} << 20, 0, 1, 1);
      if (transport.rank() == 0) return dist::finish(transport, {transport.send(1, 1, data.data(), data.size())});
      std::fill(data.begin(), data.end(), static_cast<unsigned char>(0));
      dist::finish(transport, {transport.recv(0, 1, data.data(), data.size())});
      expect_equal(data, pattern(data.size(), 0, 1, 1), "last words");
    }));
  }
}

// Two sides that disagree about a size wait for each other; neither buffer is written, and other messages continue.
TEST(GlooTransportFailures, MessagesOfMismatchedSizesAreNeverDelivered) {
  expect_well(errors_of_ranks(2, [](Transport& transport) {
    Bytes data(100, 7), sentinel(100, 7);
    const bool sends = transport.rank() == 0;
    const auto odd = sends ? transport.send(1, 1, data.data(), 100) : transport.recv(0, 1, data.data(), 10);
    exchange_all(transport, 100, 2);
    transport.wait(CommClock::now() + milliseconds(50));
    check(!transport.test(odd), "expected the odd transfer not to end");
    expect_equal(data, sentinel, "sizes that disagree");
    exchange_all(transport, 100, 3);  // both have polled
  }));
}

TEST(GlooTransportJoining, AMissingRankIsNamed) {
  const auto store = make_memory_store();
  const auto errors = errors_of_threads(
      2, [&](int rank) { make_gloo_transport(store, {.rank = rank, .size = 3}, {.join = milliseconds(200)}); });
  for (const std::string& error : errors) EXPECT_TRUE(says(error, "cannot join rank 2")) << error;
}

TEST(GlooTransportJoining, DifferentSizesOfTheWorldAreNamed) {
  const auto store = make_memory_store();
  const auto errors = errors_of_threads(
      2, [&](int rank) { make_gloo_transport(store, {.rank = rank, .size = 2 + rank}, {.join = milliseconds(300)}); });
  EXPECT_TRUE(says(errors[0], "got 2 on rank 0, 3 on 1")) << errors[0];
}

TEST(GlooTransportJoining, AnAddressOfAnotherHostIsRefused) {
  const auto errors = errors_of_threads(
      1, [](int) { make_gloo_transport(make_memory_store(), {.rank = 0, .size = 2}, {.address = "192.0.2.1"}); });
  EXPECT_TRUE(says(errors[0], "expected an address of this host, got '192.0.2.1'")) << errors[0];
}

TEST(GlooTransportJoining, AnInterfaceIsTakenByNameAndAnUnknownOneRefusedWithThoseThereAre) {
  const auto store = make_memory_store();
  expect_well(errors_of_threads(2, [&](int rank) {
    exchange_all(*make_gloo_transport(store, {.rank = rank, .size = 2}, {.interface = "lo"}), 10, 1);
  }));
  const auto errors = errors_of_threads(
      1, [&](int) { make_gloo_transport(store, {.rank = 0, .size = 2, .label = "other"}, {.interface = "nonesuch"}); });
  EXPECT_TRUE(says(errors[0], "got 'nonesuch'") && says(errors[0], "lo")) << errors[0];
}

TEST(GlooTransportJoining, AcceptsIPv6Addresses) {
  const auto store = make_memory_store();
  const auto errors = errors_of_threads(2, [&](int rank) {
    exchange_all(*make_gloo_transport(store, {.rank = rank, .size = 2}, {.address = "::1"}), 10, 1);
  });
  if (says(errors[0], "expected an address of this host")) GTEST_SKIP() << "no IPv6 here";
  expect_well(errors);
}

TEST(GlooTransportJoining, GroupsOfOtherNamesAndEpochsDoNotMeet) {
  const auto store = make_memory_store();
  expect_well(errors_of_threads(2, [&](int rank) {
    for (std::uint64_t epoch = 0; epoch < 2; ++epoch) {
      for (const char* label : {"world", "side"}) {
        const auto transport = make_gloo_transport(store, {.rank = rank, .size = 2, .epoch = epoch, .label = label});
        exchange_all(*transport, 10, 1);
      }
    }
  }));
}

}  // namespace
}  // namespace starling::dist
