// MPI_Allreduce as it is, started by mpirun: --place in (MPI_IN_PLACE) or apart (two buffers).
#include <mpi.h>

#include <vector>

#include "comm/contender.h"

namespace {

class Mpi final : public bench::Contender {
 public:
  explicit Mpi(const bench::Arguments& arguments) : in_place_(arguments.text("place") == "in") {
    MPI_Init(nullptr, nullptr);
  }
  ~Mpi() override { MPI_Finalize(); }

  int rank() const override {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank;
  }
  int size() const override {
    int size = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    return size;
  }
  void open(std::int64_t count) override {
    input_.resize(static_cast<std::size_t>(count));
    if (!in_place_) output_.resize(input_.size());
  }
  void close() override {
    input_ = {};
    output_ = {};
  }
  float* input() override { return input_.data(); }
  float* output() override { return in_place_ ? input_.data() : output_.data(); }
  void all_reduce() override {
    const int count = static_cast<int>(input_.size());
    MPI_Allreduce(in_place_ ? MPI_IN_PLACE : input(), output(), count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  }
  void barrier() override { MPI_Barrier(MPI_COMM_WORLD); }

 private:
  bool in_place_;
  std::vector<float> input_, output_;
};

}  // namespace

int main(int count, char** words) {
  const bench::Arguments arguments(count, words);
  Mpi mpi(arguments);
  return bench::serve(mpi, arguments.text("pipes"));
}
