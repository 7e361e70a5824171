// SPDX-License-Identifier: Apache-2.0
// PNG by libpng, JPEG by libjpeg. Both are C and report an error by a function that must not return: ours throws, over
// their frames, which have unwind tables on every system that Tare runs on and nothing to destroy.
#include <cstdio>  // for jpeglib.h
#include <cstring>
#include <span>
#include <utility>

#include <jerror.h>
#include <jpeglib.h>
#include <png.h>

#include "experiments/arrays/image_folder.h"
#include "quant/base/message.h"
#include "quant/file/mapped_file.h"

namespace tare {
namespace {

constexpr int kMostScans = 100;  // of a progressive JPEG: each may visit all pixels; encoders write about ten

struct Decoding {
  std::string where;
  std::span<const std::byte> left;  // of the file
  Picture picture = {};

  [[noreturn]] void Stop(const char* problem) const {
    Fail("{}: cannot decode: {}; expected a whole PNG or JPEG of 8 bits a color; try converting it", where, problem);
  }
  uint8_t* Begin(int64_t width, int64_t height) {
    if (width * height > kMostPixels)
      Fail("{}: got {} x {} pixels, expected at most {}; try a smaller copy", where, width, height, kMostPixels);
    picture = {.width = width, .height = height, .rgb = std::vector<uint8_t>(static_cast<size_t>(3 * width * height))};
    return picture.rgb.data();
  }
};

struct Png {
  png_structp file = nullptr;
  png_infop info = nullptr;
  ~Png() { png_destroy_read_struct(&file, &info, nullptr); }
};

void ReadBytes(png_structp png, png_bytep out, size_t count) {
  Decoding& image = *static_cast<Decoding*>(png_get_io_ptr(png));
  if (count > image.left.size()) image.Stop("the file ends early");
  std::memcpy(out, image.left.data(), count);
  image.left = image.left.subspan(count);
}

void DecodePng(Decoding& image) {
  Png png;
  png.file = png_create_read_struct(
      PNG_LIBPNG_VER_STRING, &image,
      [](png_structp of, png_const_charp text) { static_cast<Decoding*>(png_get_error_ptr(of))->Stop(text); },
      [](png_structp, png_const_charp) {});
  png.info = png.file == nullptr ? nullptr : png_create_info_struct(png.file);
  if (png.info == nullptr) image.Stop("no memory, or another libpng");
  png_set_read_fn(png.file, &image, ReadBytes);
  png_set_keep_unknown_chunks(png.file, PNG_HANDLE_CHUNK_ALWAYS, reinterpret_cast<png_const_bytep>("acTL"), 1);
  png_read_info(png.file, png.info);
  png_unknown_chunkp animation = nullptr;
  if (png_get_unknown_chunks(png.file, png.info, &animation) > 0) image.Stop("it is animated");
  if (png_get_color_type(png.file, png.info) == PNG_COLOR_TYPE_GRAY && png_get_bit_depth(png.file, png.info) == 16)
    image.Stop("it is grey of 16 bits");
  png_set_expand(png.file);
  png_set_strip_16(png.file);
  png_set_strip_alpha(png.file);
  png_set_gray_to_rgb(png.file);
  const int passes = png_set_interlace_handling(png.file);
  const int64_t width = png_get_image_width(png.file, png.info), height = png_get_image_height(png.file, png.info);
  uint8_t* const pixels = image.Begin(width, height);
  png_read_update_info(png.file, png.info);
  TARE_CHECK(png_get_rowbytes(png.file, png.info) == static_cast<size_t>(3 * width));
  for (int pass = 0; pass < passes; ++pass) {
    for (int64_t y = 0; y < height; ++y) png_read_row(png.file, pixels + 3 * width * y, nullptr);
  }
}

struct Jpeg {
  jpeg_decompress_struct file{};
  jpeg_error_mgr errors{};
  jpeg_progress_mgr progress{};
  ~Jpeg() { jpeg_destroy_decompress(&file); }
};

void StopJpeg(j_common_ptr jpeg) {
  char text[JMSG_LENGTH_MAX];
  jpeg->err->format_message(jpeg, text);
  static_cast<Decoding*>(jpeg->client_data)->Stop(text);
}

void DecodeJpeg(Decoding& image) {
  Jpeg jpeg;
  jpeg.file.err = jpeg_std_error(&jpeg.errors);
  jpeg.file.client_data = &image;
  jpeg.errors.error_exit = StopJpeg;
  // Like Pillow, reads on after warnings, unless the file has ended.
  jpeg.errors.emit_message = [](j_common_ptr of, int level) {
    if (level < 0 && of->err->msg_code == JWRN_JPEG_EOF) StopJpeg(of);
  };
  jpeg.progress.progress_monitor = [](j_common_ptr of) {
    if (reinterpret_cast<j_decompress_ptr>(of)->input_scan_number > kMostScans)
      static_cast<Decoding*>(of->client_data)->Stop("it has too many scans");
  };
  jpeg_create_decompress(&jpeg.file);
  jpeg.file.progress = &jpeg.progress;
  jpeg_mem_src(&jpeg.file, reinterpret_cast<const unsigned char*>(image.left.data()), image.left.size());
  jpeg_read_header(&jpeg.file, TRUE);
  if (jpeg.file.num_components == 4) image.Stop("it is CMYK");
  uint8_t* const pixels = image.Begin(jpeg.file.image_width, jpeg.file.image_height);
  jpeg.file.out_color_space = JCS_RGB;
  jpeg_start_decompress(&jpeg.file);
  while (jpeg.file.output_scanline < jpeg.file.output_height) {
    JSAMPROW row = pixels + 3 * image.picture.width * jpeg.file.output_scanline;
    jpeg_read_scanlines(&jpeg.file, &row, 1);
  }
  jpeg_finish_decompress(&jpeg.file);
}

}  // namespace

Picture DecodeImage(const std::filesystem::path& path) {
  const MappedFile file(path);
  Decoding image{.where = path.string(), .left = file.bytes()};
  if (file.text().starts_with("\x89PNG\r\n\x1a\n")) {
    DecodePng(image);
  } else if (file.text().starts_with("\xff\xd8\xff")) {
    DecodeJpeg(image);
  } else {
    Fail("{}: got another format, expected PNG or JPEG; try converting it", path.string());
  }
  return std::move(image.picture);
}

}  // namespace tare
