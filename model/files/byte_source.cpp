#include "model/files/byte_source.hpp"

#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <array>
#include <bit>
#include <new>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "base/stop_request.hpp"
#include "base/units.hpp"
#include "model/memory.hpp"

namespace troupe::model {

namespace {

class plain_source final : public byte_source {
 public:
  plain_source(std::shared_ptr<const input_file> file, std::uint64_t offset) : file_(std::move(file)), next_(offset) {}

  result<std::size_t> read(char* to, std::size_t capacity) override {
    auto got = file_->read_some(next_, std::as_writable_bytes(std::span(to, capacity)));
    if (got) next_ += *got;
    return got;
  }

 private:
  std::shared_ptr<const input_file> file_;
  std::uint64_t next_;
};

// The common part of both decompressors: the compressed input, and its faults.
class compressed_input {
 public:
  compressed_input(std::shared_ptr<const input_file> file, const char* format)
      : file_(std::move(file)), format_(format), buffer_(std::size_t{256} << 10) {}

  // Reads the next bytes of the file; returns 0 at its end.
  result<std::size_t> refill() {
    auto got = file_->read_some(next_, std::as_writable_bytes(std::span(buffer_)));
    if (got) next_ += *got;
    return got;
  }

  char* data() { return buffer_.data(); }
  const std::string& name() const { return file_->name(); }

  // Reads again from the first unconsumed byte on, also beyond the end of the buffer. `left`: as below.
  result<std::size_t> look_ahead(std::size_t left, std::span<char> to) const {
    return file_->read_some(next_ - left, std::as_writable_bytes(to));
  }

  // `left`: unconsumed bytes of the buffer.
  tl::unexpected<fault> damaged(std::size_t left, const char* why) const {
    return bad_input("{}: damaged {} data near byte {}: {}; get the file again", file_->name(), format_, next_ - left,
                     why);
  }

  tl::unexpected<fault> cut_off() const {
    return bad_input("{}: the {} data are cut off: the file ends at byte {}, before they do; get the file again",
                     file_->name(), format_, next_);
  }

  // A little input may decompress for minutes, so the check for a stop when reading the file would be too rare.
  tl::unexpected<fault> ended_early() const { return stopped(file_->name()); }

  tl::unexpected<fault> followed(std::size_t left) const {
    return bad_input("{}: something else follows the {} data at byte {}; must be {} data to the end", file_->name(),
                     format_, next_ - left, format_);
  }

 private:
  std::shared_ptr<const input_file> file_;
  const char* format_;
  std::uint64_t next_ = 0;
  std::vector<char> buffer_;
};

class gzip_source final : public byte_source {
 public:
  explicit gzip_source(std::shared_ptr<const input_file> file) : input_(std::move(file), "gzip") {
    constexpr int gzip_window = 16 + MAX_WBITS;
    if (inflateInit2(&stream_, gzip_window) != Z_OK) throw std::bad_alloc();
  }
  ~gzip_source() override { inflateEnd(&stream_); }
  gzip_source(const gzip_source&) = delete;
  gzip_source& operator=(const gzip_source&) = delete;

  result<std::size_t> read(char* to, std::size_t capacity) override {
    if (stop_asked()) return input_.ended_early();
    stream_.next_out = reinterpret_cast<unsigned char*>(to);
    stream_.avail_out = static_cast<uInt>(capacity);
    while (stream_.avail_out > 0) {
      if (stream_.avail_in == 0) {
        auto got = input_.refill();
        if (!got) return got;
        if (*got == 0 && !between_members_ && stream_.avail_out == capacity) return input_.cut_off();
        if (*got == 0) break;
        stream_.next_in = reinterpret_cast<unsigned char*>(input_.data());
        stream_.avail_in = static_cast<uInt>(*got);
      }
      if (between_members_) {
        constexpr unsigned char first_byte = 0x1f;
        if (*stream_.next_in != first_byte) return input_.followed(stream_.avail_in);
        inflateReset(&stream_);
        between_members_ = false;
      }
      const int status = inflate(&stream_, Z_NO_FLUSH);
      if (status == Z_MEM_ERROR) throw std::bad_alloc();
      if (status == Z_STREAM_END)
        between_members_ = true;
      else if (status != Z_OK && status != Z_BUF_ERROR)
        return input_.damaged(stream_.avail_in, stream_.msg != nullptr ? stream_.msg : "needs a dictionary");
    }
    return capacity - stream_.avail_out;
  }

 private:
  compressed_input input_;
  z_stream stream_{};
  bool between_members_ = false;
};

// Returns the window of the frame that begins with these bytes, by RFC 8878, 3.1.1.1; 0 if no frame does.
std::uint64_t window_of_frame(std::string_view frame) {
  constexpr std::string_view magic_number = "\x28\xb5\x2f\xfd";
  constexpr std::size_t window_power_min = 10;
  constexpr unsigned char single_segment = 0x20;
  if (!frame.starts_with(magic_number) || frame.size() < magic_number.size() + 2) return 0;
  const auto descriptor = static_cast<unsigned char>(frame[magic_number.size()]);
  const auto size = static_cast<unsigned char>(frame[magic_number.size() + 1]);
  if ((descriptor & single_segment) != 0) {
    const std::uint64_t content = ZSTD_getFrameContentSize(frame.data(), frame.size());
    return content == ZSTD_CONTENTSIZE_ERROR ? 0 : content;
  }
  const std::uint64_t power = std::uint64_t{1} << (window_power_min + (size >> 3));
  return power + power / 8 * (size & 7);
}

class zstd_source final : public byte_source {
 public:
  explicit zstd_source(std::shared_ptr<const input_file> file)
      : input_(std::move(file), "zstd"), context_(ZSTD_createDCtx(), ZSTD_freeDCtx) {
    if (context_ == nullptr) throw std::bad_alloc();
    ZSTD_DCtx_setParameter(context_.get(), ZSTD_d_windowLogMax, std::bit_width(zstd_window_max) - 1);
  }

  std::uint64_t window() const override { return window_; }

  result<std::size_t> read(char* to, std::size_t capacity) override {
    if (stop_asked()) return input_.ended_early();
    ZSTD_outBuffer out{to, capacity, 0};
    while (out.pos < out.size) {
      bool ended = false;
      if (taken_.pos == taken_.size) {
        auto got = input_.refill();
        if (!got) return got;
        taken_ = {input_.data(), *got, 0};
        ended = *got == 0;
      }
      // Without input there may still be output, but only from a started frame.
      if (ended && !in_frame_) break;
      if (!in_frame_) TROUPE_DO(check_frame());
      const std::size_t status = ZSTD_decompressStream(context_.get(), &out, &taken_);
      const std::size_t left = taken_.size - taken_.pos;
      if (ZSTD_isError(status) != 0) {
        const auto code = ZSTD_getErrorCode(status);
        if (code == ZSTD_error_memory_allocation) throw std::bad_alloc();
        if (code == ZSTD_error_prefix_unknown && !in_frame_) return input_.followed(left);
        return input_.damaged(left, ZSTD_getErrorName(status));
      }
      in_frame_ = status != 0;
      if (ended && in_frame_ && out.pos == 0) return input_.cut_off();
      if (ended && out.pos < out.size) break;
    }
    return out.pos;
  }

 private:
  // Checks whether the frame that begins now can be read.
  result<void> check_frame() {
    std::array<char, 18> header{};  // the maximum length of a frame's header
    TROUPE_TRY(got, input_.look_ahead(taken_.size - taken_.pos, header));
    const std::string_view frame(header.data(), got);
    if (const unsigned dictionary = ZSTD_getDictID_fromFrame(frame.data(), frame.size()); dictionary != 0)
      return bad_input("{}: needs the zstd dictionary {}: must need none; compress it anew without", input_.name(),
                       dictionary);
    const std::uint64_t window = window_of_frame(frame);
    if (window > zstd_window_max)
      return bad_input("{}: has a zstd window of {}: must be at most {}; compress it anew, such as by zstd --long=31",
                       input_.name(), size_text(window), size_text(zstd_window_max));
    if (window > std::max(window_, zstd_usual_window_max))
      if (const std::uint64_t available = available_memory(); window > available)
        return bad_input(memory_fault(input_.name() + ": its zstd window", window, available,
                                      "compress it anew with a smaller one, such as by zstd --long=27"));
    window_ = std::max(window_, window);
    return {};
  }

  compressed_input input_;
  std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> context_;
  ZSTD_inBuffer taken_{nullptr, 0, 0};
  std::uint64_t window_ = 0;
  bool in_frame_ = false;
};

// Compressed and packed formats, recognized by bytes that do not begin any text.
struct format_not_read {
  std::size_t offset;
  std::string_view bytes;
  const char* what;
};

constexpr format_not_read formats_not_read[] = {{0, {"\xfd\x37zXZ\0", 6}, "compressed by xz"},
                                                {4, "1AY&SY", "compressed by bzip2"},
                                                {0, "\x04\x22\x4d\x18", "compressed by lz4"},
                                                {0, "PK\x03\x04", "a zip archive"}};

}  // namespace

result<compression> compression_of(const input_file& file) {
  std::array<char, 10> first{};
  TROUPE_DO(file.read_some(0, std::as_writable_bytes(std::span(first))));
  for (const auto& [offset, bytes, what] : formats_not_read)
    if (std::string_view(first.data(), first.size()).substr(offset).starts_with(bytes))
      return bad_input("{}: is {}: must be plain, or compressed by gzip or zstd; unpack it", file.name(), what);
  const auto byte = [&first](std::size_t i) { return static_cast<unsigned char>(first[i]); };
  if (byte(0) == 0x1f && byte(1) == 0x8b) return compression::gzip;
  if (byte(0) == 0x28 && byte(1) == 0xb5 && byte(2) == 0x2f && byte(3) == 0xfd) return compression::zstd;
  // Some compressors begin with a skippable frame.
  if ((byte(0) & 0xf0) == 0x50 && byte(1) == 0x2a && byte(2) == 0x4d && byte(3) == 0x18) return compression::zstd;
  return compression::none;
}

std::unique_ptr<byte_source> open_source(std::shared_ptr<const input_file> file, compression how,
                                         std::uint64_t offset) {
  switch (how) {
    case compression::gzip:
      return std::make_unique<gzip_source>(std::move(file));
    case compression::zstd:
      return std::make_unique<zstd_source>(std::move(file));
    case compression::none:
      break;
  }
  return std::make_unique<plain_source>(std::move(file), offset);
}

}  // namespace troupe::model
