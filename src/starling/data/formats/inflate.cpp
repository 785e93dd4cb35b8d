#include "starling/data/formats/inflate.h"

#include <zlib.h>

#include <algorithm>
#include <limits>

#include "starling/base/error.h"

namespace starling::data {

struct Inflater::Stream {
  z_stream zlib{};
  ~Stream() { inflateEnd(&zlib); }
};

Inflater::Inflater(Packing packing) : stream_(std::make_unique<Stream>()) {
  const int window = packing == Packing::gzip ? 16 + MAX_WBITS : -MAX_WBITS;
  check(inflateInit2(&stream_->zlib, window) == Z_OK, "[inflate] expected zlib to start, got a failure");
}

Inflater::~Inflater() = default;
Inflater::Inflater(Inflater&&) noexcept = default;
Inflater& Inflater::operator=(Inflater&&) noexcept = default;

Inflater::State Inflater::unpack(std::span<const std::byte>& in, std::span<std::byte> out, std::size_t& written) {
  constexpr std::size_t kMost = std::numeric_limits<uInt>::max();  // zlib counts in 32 bits
  auto& zlib = stream_->zlib;
  written = 0;
  while (written < out.size()) {
    const std::size_t give = std::min(in.size(), kMost), room = std::min(out.size() - written, kMost);
    zlib.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(in.data()));
    zlib.avail_in = static_cast<uInt>(give);
    zlib.next_out = reinterpret_cast<Bytef*>(out.data() + written);
    zlib.avail_out = static_cast<uInt>(room);
    const int code = inflate(&zlib, Z_NO_FLUSH);
    in = in.subspan(give - zlib.avail_in);
    written += room - zlib.avail_out;
    if (code == Z_STREAM_END) return State::ended;
    if (code == Z_BUF_ERROR) return State::going;  // no input left
    if (code != Z_OK) return State::damaged;
  }
  return State::going;
}

void Inflater::restart() { inflateReset(&stream_->zlib); }

}  // namespace starling::data
