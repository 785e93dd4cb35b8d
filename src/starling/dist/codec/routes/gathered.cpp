#include "starling/dist/codec/routes/gathered.h"

#include <algorithm>

#include "starling/base/error.h"

namespace starling::dist {
namespace {

// Counts that a rank sends ahead of its words. Ranks that agree on the most also agree on the memory they need.
struct Announced {
  std::int64_t words = 0, most = 0;
};

// Scratch memory begins with what all ranks announce, and the counts of their words once more on their own.
std::size_t head_bytes(std::size_t ranks) {
  return (ranks * (sizeof(Announced) + sizeof(std::int64_t)) + 63) / 64 * 64;
}

// Every rank sees the same numbers: all of them throw, or none.
void expect_alike(std::span<const Announced> all, std::string_view name) {
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const auto [words, most] = all[rank];
    check(most == all[0].most && words >= 0 && words <= most,
          "[codec] expected all ranks to send at most {} words of '{}', as rank 0 does, got {} of at most {} from rank "
          "{}: do codec options or shapes differ between ranks?",
          all[0].most, name, words, most, rank);
  }
}

}  // namespace

void GatheredCodec::expect_countable(std::int64_t values) {
  constexpr std::int64_t kMost = (std::int64_t{1} << 31) - 1;
  check(values <= kMost,
        "[codec] expected tensors of at most {} values for top_k and threshold, got {}: split the parameter, or take "
        "another codec",
        kMost, values);
}

std::size_t GatheredCodec::scratch_bytes(std::span<const CodedShape> shapes, int /*rank*/, int ranks) const {
  std::int64_t words = 0, work = 0;
  for (const CodedShape& shape : shapes) {
    expect_countable(shape.values());
    words += 1 + most_words(shape.values());
    work = std::max(work, work_values(shape.values()));
  }
  // The head, this rank's words, then what others sent; first that is memory to work in.
  return head_bytes(static_cast<std::size_t>(ranks)) +
         static_cast<std::size_t>(words + std::max(work, ranks * words)) * sizeof(std::uint32_t);
}

std::int64_t GatheredCodec::most_words(std::span<const CodedTensor> tensors) const {
  std::int64_t most = 0;
  for (const CodedTensor& tensor : tensors) most += 1 + most_words(tensor.shape.values());
  return most;
}

std::int64_t GatheredCodec::choose_all(std::span<const CodedTensor> tensors, int ranks, float* work,
                                       std::uint32_t* words) const {
  std::uint32_t* next = words;
  for (const CodedTensor& tensor : tensors) {
    const std::int64_t chosen = choose(tensor, ranks, work, next + 1);
    *next = static_cast<std::uint32_t>(chosen);
    if (tensor.coded != nullptr)
      *tensor.coded = static_cast<double>(sizeof(std::uint32_t)) * static_cast<double>(chosen);
    next += 1 + chosen;
  }
  return next - words;
}

// Adds what one rank has sent of all tensors; false if that has another form.
bool GatheredCodec::add_all(std::span<const std::uint32_t> words, std::span<const CodedTensor> tensors) const {
  for (const CodedTensor& tensor : tensors) {
    if (words.empty() || words[0] > words.size() - 1) return false;
    const std::size_t count = words[0];
    if (!add(words.subspan(1, count), {tensor.y, static_cast<std::size_t>(tensor.shape.values())})) return false;
    words = words.subspan(1 + count);
  }
  return words.empty();
}

std::size_t GatheredCodec::most_bytes(const CodedShape& shape) const {
  return sizeof(std::uint32_t) * static_cast<std::size_t>(most_words(shape.values()));
}

std::size_t GatheredCodec::encode(const CodedTensor& tensor, std::byte* wire) const {
  std::vector<float> work(static_cast<std::size_t>(work_values(tensor.shape.values())));
  const auto words = choose(tensor, 1, work.data(), reinterpret_cast<std::uint32_t*>(wire));
  return sizeof(std::uint32_t) * static_cast<std::size_t>(words);
}

Result<void> GatheredCodec::decode(const CodedShape& shape, std::span<const std::byte> wire, std::span<float> y) const {
  constexpr std::size_t kWord = sizeof(std::uint32_t);
  if (wire.size() % kWord != 0 || wire.size() > most_bytes(shape))
    return failure("expected at most {} bytes in words of {} values, got {}", most_bytes(shape), shape.values(),
                   wire.size());
  std::ranges::fill(y, 0.0F);
  if (!add({reinterpret_cast<const std::uint32_t*>(wire.data()), wire.size() / kWord}, y))
    return failure("expected words in the form of this codec for {} values, got others", shape.values());
  return {};
}

void GatheredCodec::reduce(std::span<const CodedTensor> tensors, Comm& comm, std::byte* scratch,
                           std::string_view name) const {
  if (comm.size() == 1) {
    for (const CodedTensor& tensor : tensors) release(tensor);
    return;
  }
  const auto ranks = static_cast<std::size_t>(comm.size());
  auto* announced = reinterpret_cast<Announced*>(scratch);
  auto* counts = reinterpret_cast<std::int64_t*>(announced + ranks);
  auto* own = reinterpret_cast<std::uint32_t*>(scratch + head_bytes(ranks));
  const std::int64_t most = most_words(tensors);
  std::uint32_t* received = own + most;
  const Announced sent{choose_all(tensors, comm.size(), reinterpret_cast<float*>(received), own), most};
  comm.all_gather(&sent, announced, 2, DType::i64, {.name = name}).wait();
  expect_alike({announced, ranks}, name);
  for (std::size_t rank = 0; rank < ranks; ++rank) counts[rank] = announced[rank].words;
  comm.all_gather(own, received, {counts, ranks}, DType::i32, {.name = name}).wait();
  for (const CodedTensor& tensor : tensors) std::fill_n(tensor.y, tensor.shape.values(), 0.0F);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const auto count = static_cast<std::size_t>(counts[rank]);
    check(add_all({received, count}, tensors),
          "[codec] expected words of '{}' in the form of this rank's codec, got others from rank {}: do codec options "
          "or shapes differ between ranks?",
          name, rank);
    received += count;
  }
}

}  // namespace starling::dist
