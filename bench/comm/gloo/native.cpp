// Gloo's own all-reduce over TCP on loopback: --algorithm ring or bcube.
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <cstdlib>
#include <exception>
#include <memory>
#include <vector>

#include "comm/contender.h"

namespace {

class Gloo final : public bench::Contender {
 public:
  explicit Gloo(const bench::Arguments& arguments)
      : bcube_(arguments.text("algorithm") == "bcube"), store_(arguments.text("store")) {
    gloo::transport::tcp::attr where;
    where.hostname = "127.0.0.1";
    auto device = gloo::transport::tcp::CreateDevice(where);
    auto context = std::make_shared<gloo::rendezvous::Context>(arguments.number("rank"), arguments.number("world"));
    context->connectFullMesh(store_, device);
    context_ = context;
  }

  int rank() const override { return context_->rank; }
  int size() const override { return context_->size; }
  void open(std::int64_t count) override { data_.resize(static_cast<std::size_t>(count)); }
  void close() override { data_ = {}; }
  float* input() override { return data_.data(); }
  float* output() override { return data_.data(); }
  void all_reduce() override {
    gloo::AllreduceOptions options(context_);
    options.setAlgorithm(bcube_ ? gloo::AllreduceOptions::Algorithm::BCUBE : gloo::AllreduceOptions::Algorithm::RING);
    options.setOutput(data_.data(), data_.size());
    options.setReduceFunction(static_cast<void (*)(void*, const void*, const void*, std::size_t)>(&gloo::sum<float>));
    gloo::allreduce(options);
  }
  void barrier() override {
    gloo::BarrierOptions options(context_);
    gloo::barrier(options);
  }

 private:
  bool bcube_;
  gloo::rendezvous::FileStore store_;
  std::shared_ptr<gloo::Context> context_;
  std::vector<float> data_;
};

}  // namespace

int main(int count, char** words) {
  const bench::Arguments arguments(count, words);
  try {
    Gloo gloo(arguments);
    return bench::serve(gloo, arguments.text("pipes"));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return EXIT_FAILURE;
  }
}
