#include "starling/dist/codec/routes/gathered.h"

#include <algorithm>

namespace starling::dist {
namespace {

std::size_t up_to_line(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

std::size_t GatheredCodec::scratch_bytes(std::span<const CodedShape> shapes, int /*rank*/, int ranks) const {
  std::int64_t words = 0, work = 0;
  for (const CodedShape& shape : shapes) {
    words += 1 + most_words(shape.values());
    work = std::max(work, work_values(shape.values()));
  }
  // The counts of all ranks, this rank's words, then what others sent; first that is memory to work in.
  return up_to_line(static_cast<std::size_t>(ranks) * sizeof(std::int64_t)) +
         static_cast<std::size_t>(words + std::max(work, ranks * words)) * sizeof(std::uint32_t);
}

void GatheredCodec::reduce(std::span<const CodedTensor> tensors, Comm& comm, std::byte* scratch,
                           std::string_view name) const {
  if (comm.size() == 1) {
    for (const CodedTensor& tensor : tensors) release(tensor);
    return;
  }
  const auto ranks = static_cast<std::size_t>(comm.size());
  auto* counts = reinterpret_cast<std::int64_t*>(scratch);
  auto* own = reinterpret_cast<std::uint32_t*>(scratch + up_to_line(ranks * sizeof(std::int64_t)));
  std::int64_t most = 0;
  for (const CodedTensor& tensor : tensors) most += 1 + most_words(tensor.shape.values());
  auto* work = reinterpret_cast<float*>(own + most);
  std::uint32_t* next = own;
  for (const CodedTensor& tensor : tensors) {
    const std::int64_t words = choose(tensor, comm.size(), work, next + 1);
    *next = static_cast<std::uint32_t>(words);
    next += 1 + words;
  }
  const std::int64_t sent = next - own;
  comm.all_gather(&sent, counts, 1, DType::i64, {.name = name}).wait();
  std::uint32_t* received = own + most;
  comm.all_gather(own, received, {counts, ranks}, DType::i32, {.name = name}).wait();
  const std::uint32_t* all = received;
  for (const CodedTensor& tensor : tensors) std::fill_n(tensor.y, tensor.shape.values(), 0.0F);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    for (const CodedTensor& tensor : tensors) {
      add({all + 1, *all}, tensor.y);
      all += 1 + *all;
    }
  }
}

}  // namespace starling::dist
