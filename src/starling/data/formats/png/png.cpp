#include <fmt/format.h>
#include <png.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstring>

#include "starling/base/error.h"
#include "starling/data/formats/image.h"

namespace starling::data {
namespace {

constexpr png_alloc_size_t kMostChunk = 8 << 20;  // memory for one chunk (a palette, a text)

struct Decoder {
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::span<const std::byte> left{};
  std::array<char, 200> message{};

  ~Decoder() { png_destroy_read_struct(&png, &info, nullptr); }
};

void on_error(png_structp png, png_const_charp message) {
  auto* decoder = static_cast<Decoder*>(png_get_error_ptr(png));
  std::strncpy(decoder->message.data(), message, decoder->message.size() - 1);
  png_longjmp(png, 1);
}

void on_warning(png_structp, png_const_charp) {}

void give(png_structp png, png_bytep to, png_size_t size) {
  auto* decoder = static_cast<Decoder*>(png_get_io_ptr(png));
  if (size > decoder->left.size()) png_error(png, "the file ends too early");
  std::memcpy(to, decoder->left.data(), size);
  decoder->left = decoder->left.subspan(size);
}

// All calls of libpng, in a scope without destructors because of longjmp. False on failure, described in `message`.
bool read_header(Decoder& decoder, const ImageOptions& options) {
  png_structp png = decoder.png;
  if (setjmp(png_jmpbuf(png)) != 0) return false;  // NOLINT(cert-err52-cpp): the only way out of libpng
  png_set_chunk_malloc_max(png, kMostChunk);
  png_set_chunk_cache_max(png, 128);
  png_set_read_fn(png, &decoder, give);
  png_read_info(png, decoder.info);
  const auto colour = png_get_color_type(png, decoder.info);
  png_set_expand(png);    // palettes, fewer than 8 bits, transparent colours
  png_set_scale_16(png);  // 16 bits to 8
  png_set_strip_alpha(png);
  if ((colour & PNG_COLOR_MASK_COLOR) == 0 && options.channels == 3) png_set_gray_to_rgb(png);
  png_set_interlace_handling(png);
  png_read_update_info(png, decoder.info);
  return true;
}

bool read_rows(Decoder& decoder, png_bytepp rows) {
  if (setjmp(png_jmpbuf(decoder.png)) != 0) return false;  // NOLINT(cert-err52-cpp): the only way out of libpng
  png_read_image(decoder.png, rows);
  png_read_end(decoder.png, nullptr);
  return true;
}

void to_grey(Image& image) {
  std::vector<std::uint8_t> shades(image.pixels.size() / 3);
  for (std::size_t i = 0; i < shades.size(); ++i) {
    shades[i] = grey(image.pixels[3 * i], image.pixels[3 * i + 1], image.pixels[3 * i + 2]);
  }
  image.pixels = std::move(shades);
  image.channels = 1;
}

struct Encoder {
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::string file{};
  ~Encoder() { png_destroy_write_struct(&png, &info); }
};

void take(png_structp png, png_bytep bytes, png_size_t size) {
  static_cast<Encoder*>(png_get_io_ptr(png))->file.append(reinterpret_cast<const char*>(bytes), size);
}

bool write_all(Encoder& encoder, const Image& image, png_bytepp rows) {
  png_structp png = encoder.png;
  if (setjmp(png_jmpbuf(png)) != 0) return false;  // NOLINT(cert-err52-cpp): the only way out of libpng
  png_set_write_fn(png, &encoder, take, nullptr);
  png_set_IHDR(png, encoder.info, static_cast<png_uint_32>(image.width), static_cast<png_uint_32>(image.height), 8,
               image.channels == 1 ? PNG_COLOR_TYPE_GRAY : PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(png, encoder.info);
  png_write_image(png, rows);
  png_write_end(png, nullptr);
  return true;
}

std::vector<png_bytep> row_pointers(const Image& image) {
  std::vector<png_bytep> rows;
  auto* at = const_cast<png_bytep>(image.pixels.data());
  for (std::int64_t y = 0; y < image.height; ++y) rows.push_back(at + y * image.width * image.channels);
  return rows;
}

}  // namespace

bool has_png() { return true; }

Image decode_png(std::span<const std::byte> file, const std::string& name, const ImageOptions& options) {
  Decoder decoder;
  decoder.left = file;
  decoder.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &decoder, on_error, on_warning);
  if (decoder.png != nullptr) decoder.info = png_create_info_struct(decoder.png);
  check(decoder.info != nullptr, "[image] expected libpng to start, got a failure");
  const auto refuse = [&] {
    throw DamagedImage(fmt::format("[image] {}: expected a PNG, got damage: {}", name, decoder.message.data()));
  };
  // The size is read from the first 24 bytes, since libpng allocates a row before it could be checked.
  if (file.size() < 24) throw DamagedImage(fmt::format("[image] {}: expected a PNG, got {} bytes", name, file.size()));
  const auto size_at = [&](std::size_t at) {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<std::uint64_t>(file[at + i]);
    return value;
  };
  check_image_size(size_at(20), size_at(16), name, options);
  if (!read_header(decoder, options)) refuse();
  Image image{png_get_image_height(decoder.png, decoder.info),
              png_get_image_width(decoder.png, decoder.info),
              png_get_channels(decoder.png, decoder.info),
              {}};
  check_image_size(static_cast<std::uint64_t>(image.height), static_cast<std::uint64_t>(image.width), name, options);
  const auto stride = static_cast<std::size_t>(image.width * image.channels);
  check((image.channels == 1 || image.channels == 3) && png_get_rowbytes(decoder.png, decoder.info) == stride,
        "[image] {}: expected 1 or 3 channels of 8 bits after decoding, got {} channels", name, image.channels);
  image.pixels.resize(stride * static_cast<std::size_t>(image.height));
  auto rows = row_pointers(image);
  if (!read_rows(decoder, rows.data())) refuse();
  if (image.channels == 3 && options.channels == 1) to_grey(image);
  return image;
}

std::string encode_png(const Image& image) {
  check((image.channels == 1 || image.channels == 3) && image.height >= 1 && image.width >= 1 &&
            static_cast<std::int64_t>(image.pixels.size()) == image.height * image.width * image.channels,
        "[image] expected a picture of 1 or 3 channels, got {} × {} × {} with {} bytes", image.height, image.width,
        image.channels, image.pixels.size());
  Encoder encoder;
  encoder.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  if (encoder.png != nullptr) encoder.info = png_create_info_struct(encoder.png);
  check(encoder.info != nullptr, "[image] expected libpng to start, got a failure");
  auto rows = row_pointers(image);
  check(write_all(encoder, image, rows.data()), "[image] expected libpng to write a picture, got a failure");
  return std::move(encoder.file);
}

}  // namespace starling::data
