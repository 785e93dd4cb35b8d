#include "starling/train/monitor/picture.h"

#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "starling/base/error.h"
#include "starling/data/formats/host_bytes.h"

namespace starling::train {
namespace {

constexpr std::int64_t kLeastSide = 4, kMostSide = 1024;
constexpr std::uint8_t kGap = 128;

void append_number(std::string& out, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift & 0xFF);
}

// A chunk of a PNG file: length, kind, data, checksum of the last two.
void append_chunk(std::string& out, const std::string& kind, const std::string& data) {
  append_number(out, static_cast<std::uint32_t>(data.size()));
  const std::string body = kind + data;
  out += body;
  append_number(out, static_cast<std::uint32_t>(
                         ::crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()))));
}

// Rows with their filter number. Filter 2, the difference to the row above, compresses images better than none.
std::string filtered_rows(const Picture& image) {
  const auto row = static_cast<std::size_t>(image.width * image.channels);
  std::string rows;
  rows.reserve((row + 1) * static_cast<std::size_t>(image.height));
  for (std::size_t y = 0; y < static_cast<std::size_t>(image.height); ++y) {
    rows += '\2';
    for (std::size_t x = 0; x < row; ++x) {
      const int above = y > 0 ? image.pixels[(y - 1) * row + x] : 0;
      rows += static_cast<char>(image.pixels[y * row + x] - above);
    }
  }
  return rows;
}

std::string deflated(const std::string& data) {
  uLongf size = ::compressBound(static_cast<uLong>(data.size()));
  std::string out(size, '\0');
  const int code = ::compress2(reinterpret_cast<Bytef*>(out.data()), &size, reinterpret_cast<const Bytef*>(data.data()),
                               static_cast<uLong>(data.size()), Z_DEFAULT_COMPRESSION);
  check(code == Z_OK, "[png] expected to compress {} bytes, got error {} of zlib", data.size(), code);
  out.resize(size);
  return out;
}

struct Sides {
  std::int64_t channels = 1, height = 0, width = 0;
};

Sides sides_of(const Tensor& batch) {
  const bool planes = batch.rank() == 4;
  return {planes ? batch.size(1) : 1, batch.size(-2), batch.size(-1)};
}

// Draws one sample [channels, height, width] into the sheet at (left, top).
template <class T>
void place(Picture& sheet, const T* sample, const Sides& sides, std::int64_t left, std::int64_t top, double low,
           double scale) {
  for (std::int64_t c = 0; c < sides.channels; ++c) {
    for (std::int64_t y = 0; y < sides.height; ++y) {
      for (std::int64_t x = 0; x < sides.width; ++x) {
        const double value = (static_cast<double>(static_cast<float>(*sample++)) - low) * scale;
        const auto at = static_cast<std::size_t>(((top + y) * sheet.width + left + x) * sides.channels + c);
        // NOLINTNEXTLINE(bugprone-incorrect-roundings): none is negative; lround would give other bytes next to a half
        sheet.pixels[at] = static_cast<std::uint8_t>(std::clamp(std::isnan(value) ? 0.0 : value, 0.0, 255.0) + 0.5);
      }
    }
  }
}

template <class T>
std::pair<double, double> range_of(std::span<const T> values) {
  double low = INFINITY, high = -INFINITY;
  for (const T value : values) {
    const auto v = static_cast<double>(static_cast<float>(value));
    if (!std::isfinite(v)) continue;
    low = std::min(low, v);
    high = std::max(high, v);
  }
  return low <= high ? std::pair(low, high) : std::pair(0.0, 1.0);
}

}  // namespace

std::string to_png(const Picture& image) {
  check(image.width > 0 && image.height > 0 && (image.channels == 1 || image.channels == 3) &&
            image.pixels.size() == static_cast<std::size_t>(image.width * image.height * image.channels),
        "[png] expected width x height x channels (1 or 3) pixels, got {} x {} x {} and {} pixels", image.width,
        image.height, image.channels, image.pixels.size());
  std::string header;
  append_number(header, static_cast<std::uint32_t>(image.width));
  append_number(header, static_cast<std::uint32_t>(image.height));
  header += '\x08';                             // bits per channel
  header += image.channels == 3 ? '\2' : '\0';  // RGB or grey
  header += std::string(3, '\0');               // deflate, adaptive filters, not interlaced
  std::string out = "\x89PNG\r\n\x1a\n";
  append_chunk(out, "IHDR", header);
  append_chunk(out, "IDAT", deflated(filtered_rows(image)));
  append_chunk(out, "IEND", "");
  return out;
}

bool looks_like_images(const Tensor& batch) {
  if (!batch.defined() || (batch.rank() != 3 && batch.rank() != 4) || batch.size(0) < 1) return false;
  if (!is_float(batch.dtype()) && batch.dtype() != DType::u8) return false;
  const auto fits = [](std::int64_t side) { return side >= kLeastSide && side <= kMostSide; };
  const Sides sides = sides_of(batch);
  return (sides.channels == 1 || sides.channels == 3) && fits(sides.height) && fits(sides.width);
}

Picture contact_sheet(const Tensor& batch, std::int64_t most) {
  check(looks_like_images(batch) && most > 0, "[contact_sheet] expected a batch of images [n, 1|3, h, w], got {}",
        batch.defined() ? to_string(batch.type()) : "nothing");
  const Tensor host = data::on_host(batch);
  const Sides sides = sides_of(host);
  const std::int64_t count = std::min(most, host.size(0));
  const auto columns = static_cast<std::int64_t>(std::ceil(std::sqrt(static_cast<double>(count))));
  const std::int64_t rows = (count + columns - 1) / columns;
  Picture sheet{.width = columns * (sides.width + 1) - 1,
                .height = rows * (sides.height + 1) - 1,
                .channels = static_cast<int>(sides.channels)};
  sheet.pixels.assign(static_cast<std::size_t>(sheet.width * sheet.height * sheet.channels), kGap);
  const std::int64_t size = sides.channels * sides.height * sides.width;
  dispatch(host.dtype(), [&]<class T>() {
    for (std::int64_t i = 0; i < count; ++i) {
      const T* sample = host.data<T>() + i * size;
      const auto [low, high] = std::is_same_v<T, std::uint8_t>
                                   ? std::pair(0.0, 255.0)
                                   : range_of(std::span(sample, static_cast<std::size_t>(size)));
      place(sheet, sample, sides, i % columns * (sides.width + 1), i / columns * (sides.height + 1), low,
            high > low ? 255 / (high - low) : 0);
    }
  });
  return sheet;
}

}  // namespace starling::train
