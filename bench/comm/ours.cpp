// Communicators of Starling between processes: --backend shared (--memory arena or plain), gloo; --checked yes: with
// the decorator that jobs have around them.
#include <cstdlib>
#include <exception>

#include "comm/contender.h"
#include "starling/base/error.h"
#include "starling/dist/comm/checking/checking_comm.h"
#include "starling/dist/comm/shared/shared_arena.h"
#include "starling/dist/comm/shared/shared_comm.h"
#include "starling/dist/comm/transport/gloo_comm.h"
#include "starling/dist/launch/store/store.h"
#include "starling/tensor/allocator.h"

namespace {

using namespace starling;

class Ours final : public bench::Contender {
 public:
  explicit Ours(const bench::Arguments& arguments)
      : store_(make_file_store(arguments.text("store"))), arena_(arguments.text("memory") == "arena") {
    const int rank = arguments.number("rank"), world = arguments.number("world");
    if (arguments.text("backend") == "gloo") {
      comm_ = make_gloo_comm(store_, CommGroup{.rank = rank, .size = world});
    } else {
      comm_ = make_shared_comm(*store_, rank, world);
    }
    if (arguments.text("checked") == "yes") comm_ = dist::make_checking(std::move(comm_));
  }

  int rank() const override { return comm_->rank(); }
  int size() const override { return comm_->size(); }
  void open(std::int64_t count) override {
    count_ = count;
    data_ = static_cast<float*>(memory().allocate(bytes()));
  }
  void close() override { memory().deallocate(data_, bytes()); }
  float* input() override { return data_; }
  float* output() override { return data_; }
  void all_reduce() override { comm_->all_reduce(data_, data_, count_, DType::f32, ReduceOp::sum).wait(); }
  void barrier() override { comm_->barrier().wait(); }

 private:
  std::size_t bytes() const { return static_cast<std::size_t>(count_) * sizeof(float); }
  Allocator& memory() {
    if (!arena_) return allocator(kCpu);
    check(comm_->arena() != nullptr, "[bench] expected a backend with an arena, got {}", comm_->capabilities().backend);
    return *comm_->arena();
  }

  std::shared_ptr<Store> store_;
  std::unique_ptr<Comm> comm_;
  bool arena_;
  std::int64_t count_ = 0;
  float* data_ = nullptr;
};

}  // namespace

int main(int count, char** words) {
  const bench::Arguments arguments(count, words);
  try {
    Ours ours(arguments);
    return bench::serve(ours, arguments.text("pipes"));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return EXIT_FAILURE;
  }
}
