// jpeglib.h needs the two headers before it.
// clang-format off
#include <cstddef>
#include <cstdio>
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include <fmt/format.h>
#include <setjmp.h>

#include <array>

#include "starling/base/error.h"
#include "starling/data/formats/image.h"

namespace starling::data {
namespace {

constexpr int kMostScans = 200;  // progressive images have tens of scans; each costs a pass over the image

struct Decoder {
  jpeg_error_mgr errors{};
  jpeg_progress_mgr progress{};
  jpeg_decompress_struct jpeg{};
  jmp_buf leave{};
  std::array<char, JMSG_LENGTH_MAX> message{};
};

// Exceptions must not cross libjpeg's C code: longjmp out of it, and throw the message from there.
void on_error(j_common_ptr jpeg) {
  auto* decoder = static_cast<Decoder*>(jpeg->client_data);
  jpeg->err->format_message(jpeg, decoder->message.data());
  longjmp(decoder->leave, 1);
}

// Warnings that affect no pixel: extra bytes between segments, versions and parameters that are not used.
bool harmless(int message) {
  return message == JWRN_EXTRANEOUS_DATA || message == JWRN_JFIF_MAJOR || message == JWRN_ADOBE_XFORM ||
         message == JWRN_NOT_SEQUENTIAL;
}

// Damage that libjpeg would gloss over is an error here: truncated data or invalid codes.
void on_message(j_common_ptr jpeg, int level) {
  if (level < 0 && !harmless(jpeg->err->msg_code)) on_error(jpeg);
}

void on_progress(j_common_ptr jpeg) {
  auto* decoder = static_cast<Decoder*>(jpeg->client_data);
  if (reinterpret_cast<j_decompress_ptr>(jpeg)->input_scan_number <= kMostScans) return;
  std::snprintf(decoder->message.data(), decoder->message.size(), "more than %d scans", kMostScans);
  longjmp(decoder->leave, 1);
}

// All calls of libjpeg, in a scope without destructors because of longjmp. False on failure, described in `message`.
bool begin(Decoder& decoder, std::span<const std::byte> file, const ImageOptions& options) {
  auto& jpeg = decoder.jpeg;
  jpeg.err = jpeg_std_error(&decoder.errors);
  decoder.errors.error_exit = on_error;
  decoder.errors.emit_message = on_message;
  decoder.progress.progress_monitor = on_progress;
  if (setjmp(decoder.leave) != 0) return false;  // NOLINT(cert-err52-cpp): the only way out of libjpeg
  jpeg_create_decompress(&jpeg);
  jpeg.client_data = &decoder;
  jpeg.progress = &decoder.progress;
  jpeg_mem_src(&jpeg, reinterpret_cast<const unsigned char*>(file.data()), static_cast<unsigned long>(file.size()));
  jpeg_read_header(&jpeg, TRUE);
  const bool inks = jpeg.jpeg_color_space == JCS_CMYK || jpeg.jpeg_color_space == JCS_YCCK;
  jpeg.out_color_space = inks ? JCS_CMYK : options.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  return true;
}

bool read_rows(Decoder& decoder, std::uint8_t* pixels, std::size_t stride) {
  auto& jpeg = decoder.jpeg;
  if (setjmp(decoder.leave) != 0) return false;  // NOLINT(cert-err52-cpp): the only way out of libjpeg
  jpeg_start_decompress(&jpeg);
  while (jpeg.output_scanline < jpeg.output_height) {
    JSAMPROW row = pixels + jpeg.output_scanline * stride;
    jpeg_read_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_decompress(&jpeg);
  return true;
}

// Adobe programs store CMYK inverted, others do not.
std::vector<std::uint8_t> from_inks(const std::vector<std::uint8_t>& inks, bool inverted, std::int64_t channels) {
  std::vector<std::uint8_t> pixels;
  pixels.reserve(inks.size() / 4 * static_cast<std::size_t>(channels));
  const auto light = [&](std::uint8_t ink) { return inverted ? ink : 255 - ink; };
  for (std::size_t i = 0; i + 3 < inks.size(); i += 4) {
    std::array<std::uint8_t, 3> rgb{};
    for (std::size_t c = 0; c < 3; ++c) {
      rgb[c] = static_cast<std::uint8_t>((light(inks[i + c]) * light(inks[i + 3]) + 127) / 255);
    }
    if (channels == 1) {
      pixels.push_back(grey(rgb[0], rgb[1], rgb[2]));
    } else {
      pixels.insert(pixels.end(), rgb.begin(), rgb.end());
    }
  }
  return pixels;
}

// Frees libjpeg's memory, however decoding ends.
struct Cleaner {
  Decoder& decoder;
  ~Cleaner() { jpeg_destroy_decompress(&decoder.jpeg); }
};

}  // namespace

bool has_jpeg() { return true; }

Image decode_jpeg(std::span<const std::byte> file, const std::string& name, const ImageOptions& options) {
  Decoder decoder;
  decoder.jpeg.client_data = &decoder;
  const Cleaner cleaner{decoder};
  const auto refuse = [&] {
    throw DamagedImage(fmt::format("[image] {}: expected a JPEG, got damage: {}", name, decoder.message.data()));
  };
  if (!begin(decoder, file, options)) refuse();
  auto& jpeg = decoder.jpeg;
  check_image_size(jpeg.image_height, jpeg.image_width, name, options);
  const bool inks = jpeg.out_color_space == JCS_CMYK;
  Image image{jpeg.image_height, jpeg.image_width, options.channels, {}};
  const std::size_t stride = static_cast<std::size_t>(image.width * (inks ? 4 : options.channels));
  image.pixels.resize(stride * static_cast<std::size_t>(image.height));
  const bool inverted = jpeg.saw_Adobe_marker != 0;
  if (!read_rows(decoder, image.pixels.data(), stride)) refuse();
  if (inks) image.pixels = from_inks(image.pixels, inverted, options.channels);
  return image;
}

}  // namespace starling::data
