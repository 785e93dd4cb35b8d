// Transport conformance of the in-process transport; tests/dist/gloo and tests/dist/processes test the others.
#include "dist/transport_conformance.h"

#include <gtest/gtest.h>

#include "starling/dist/comm/transport/memory/memory_transport.h"

namespace starling::dist {
namespace {

using namespace transport_checks;

class MemoryTransport : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Worlds, MemoryTransport, ::testing::Range(1, 10));

TEST_P(MemoryTransport, DoesWhatEveryTransportMust) {
  for (const Check& one : all_checks()) {
    const auto network = make_memory_network(GetParam());
    const auto errors = errors_of_threads(GetParam(), [&](int rank) { one.run(*network->endpoint(rank)); });
    for (std::size_t rank = 0; rank < errors.size(); ++rank) EXPECT_EQ(errors[rank], "") << one.name << " " << rank;
  }
}

// Control: a network that confuses two channels is detected.
class Confusing final : public Transport {
 public:
  explicit Confusing(std::shared_ptr<Transport> inner) : inner_(std::move(inner)) {}
  std::string_view name() const override { return "confusing"; }
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  Transfer send(int to, std::uint32_t channel, const void* data, std::size_t bytes) override {
    return inner_->send(to, channel / 2, data, bytes);
  }
  Transfer recv(int from, std::uint32_t channel, void* data, std::size_t bytes) override {
    return inner_->recv(from, channel / 2, data, bytes);
  }
  bool test(Transfer transfer) override { return inner_->test(transfer); }
  void wait(CommTime until) override { inner_->wait(until); }
  void abort(std::string_view reason) override { inner_->abort(reason); }

 private:
  std::shared_ptr<Transport> inner_;
};

TEST(TransportChecks, FindANetworkThatTakesTwoChannelsForOne) {
  const auto network = make_memory_network(2);
  const auto errors = errors_of_threads(2, [&](int rank) {
    Confusing confusing(network->endpoint(rank));
    channels_never_meet(confusing);
  });
  for (const std::string& error : errors) EXPECT_NE(error.find("got others: channel"), std::string::npos) << error;
}

}  // namespace
}  // namespace starling::dist
