// Every reader of external data gets damaged files: bits flipped, pieces removed, duplicated and overwritten. It must
// read them or throw an Error, quickly. Longer and smarter runs: tests/fuzz.
#include <gtest/gtest.h>

#include <ctime>
#include <functional>
#include <string>

#include "byte_helpers.h"
#include "starling/base/bytes.h"
#include "starling/base/error.h"
#include "starling/base/philox.h"
#include "starling/data/formats/cifar.h"
#include "starling/data/formats/csv.h"
#include "starling/data/formats/example.h"
#include "starling/data/formats/image.h"
#include "starling/data/formats/npy.h"
#include "starling/data/formats/text.h"
#include "starling/data/formats/tfrecord.h"
#include "starling/data/formats/webdataset.h"
#include "starling/data/tokenizers/bpe.h"
#include "testing/temporary_folder.h"

namespace starling::data {
namespace {

using testing::golden;
using testing::read_text;

// Processor time of this thread, independent of the machine's load.
double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

std::string damaged(std::string bytes, std::uint64_t seed) {
  const PhiloxStream stream({.seed = seed});
  std::uint64_t draw = 0;
  const auto below = [&](std::size_t bound) { return philox_bits(stream, draw++) % std::max<std::size_t>(bound, 1); };
  for (std::size_t n = 1 + below(4); n > 0 && !bytes.empty(); --n) {
    const std::size_t at = below(bytes.size()), size = std::min(bytes.size() - at, 1 + below(40));
    switch (below(5)) {
      case 0: bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8))); break;
      case 1: bytes.erase(at, size); break;
      case 2: bytes.insert(at, bytes.substr(at, size)); break;
      case 3: bytes.replace(at, size, size, below(2) == 0 ? '\xff' : '\0'); break;
      default: bytes.resize(at);
    }
  }
  return bytes;
}

void expect_read_or_refused(const std::string& name, const std::string& whole,
                            const std::function<void(std::span<const std::byte>)>& read, int rounds = 400) {
  read(as_bytes(whole));
  int refused = 0;
  double slowest = 0;
  for (int i = 0; i < rounds; ++i) {
    const std::string bytes = damaged(whole, static_cast<std::uint64_t>(i));
    const double begin = thread_seconds();
    try {
      read(as_bytes(bytes));
    } catch (const Error&) {
      ++refused;
    }
    slowest = std::max(slowest, thread_seconds() - begin);
  }
  EXPECT_GT(refused, rounds / 20) << name;  // enough files were really damaged
  EXPECT_LT(slowest, 2) << name;            // milliseconds normally; sanitizers are slow
}

template <class Reader>
void drain(Reader&& reader) {
  while (reader.next() != nullptr) {
  }
}

ByteSource source(std::span<const std::byte> bytes, const char* who) {
  return ByteSource::of(bytes, "f", {.who = who, .most_unpacked = 1 << 24});
}

TEST(HostileFiles, AreReadOrRefused) {
  for (const char* name : {"f32.npy", "fortran.npy", "bool.npy"}) {
    expect_read_or_refused(name, read_text(golden(name)), [](auto bytes) { parse_npy(bytes, "f"); });
  }
  for (const char* name : {"stored.npz", "deflated.npz"}) {
    expect_read_or_refused(name, read_text(golden(name)), [](auto bytes) { parse_npz(bytes, "f"); });
  }
  for (const char* name : {"five.tfrecord", "five.tfrecord.gz"}) {
    expect_read_or_refused(name, read_text(golden(name)), [](auto bytes) {
      drain(*read_tfrecord(source(bytes, "tfrecord"), {.most_record = 1 << 20}));
    });
  }
  for (const char* name : {"pax.tar", "gnu.tar", "pax.tar.gz"}) {
    expect_read_or_refused(name, read_text(golden(name)), [](auto bytes) {
      drain(*read_webdataset(source(bytes, "webdataset"), {.most_record = 1 << 20}));
    });
  }
  expect_read_or_refused("csv", "a,b,c\n1,\"x,\ny\",3\n4,5,6\n\"7\",8,\"9\"\n",
                         [](auto bytes) { drain(CsvReader(source(bytes, "csv"), {})); });
  expect_read_or_refused("cifar", read_text(golden("cifar10.bin")),
                         [](auto bytes) { parse_cifar(bytes, "f", CifarKind::cifar10); });
}

TEST(HostileFiles, PicturesAreReadOrRefused) {
  for (const std::string name : {"colour.jpg", "progressive.jpg", "cmyk.jpg", "colour.png", "palette.png"}) {
    if (!(name.ends_with(".png") ? has_png() : has_jpeg())) continue;
    expect_read_or_refused(name, read_text(golden(name)),
                           [](auto bytes) { decode_image(bytes, "f", {.most_pixels = 1 << 16}); });
  }
}

TEST(HostileFiles, ExamplesAndVocabulariesAreReadOrRefused) {
  if (has_example()) {
    const std::string example =
        format_example({{"a", std::vector<float>{1, 2, 3}}, {"b", std::vector<std::string>{"x"}}});
    expect_read_or_refused("example", example, [](auto bytes) { parse_example(bytes, "f"); });
  }
  const std::string json = BpeTokenizer({{'a', 'b'}, {256, 'c'}}).json().dump();
  expect_read_or_refused("vocabulary", json, [](auto bytes) {
    parse_tokenizer({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, "f");
  });
}

}  // namespace
}  // namespace starling::data
