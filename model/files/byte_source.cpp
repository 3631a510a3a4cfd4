#include "model/files/byte_source.hpp"

#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <array>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "base/result.hpp"

namespace troupe::model {

namespace {

class plain_source final : public byte_source {
 public:
  plain_source(std::shared_ptr<const input_file> file, std::uint64_t offset) : file_(std::move(file)), next_(offset) {}

  result<std::size_t> read(char* to, std::size_t room) override {
    auto got = file_->read_some(next_, std::as_writable_bytes(std::span(to, room)));
    if (got) next_ += *got;
    return got;
  }

 private:
  std::shared_ptr<const input_file> file_;
  std::uint64_t next_;
};

// The common part of the two decompressors: the compressed input, and its faults.
class compressed_input {
 public:
  compressed_input(std::shared_ptr<const input_file> file, const char* format)
      : file_(std::move(file)), format_(format), buffer_(std::size_t{256} << 10) {}

  // Reads the next bytes of the file; none at its end.
  result<std::size_t> refill() {
    auto got = file_->read_some(next_, std::as_writable_bytes(std::span(buffer_)));
    if (got) next_ += *got;
    return got;
  }

  char* data() { return buffer_.data(); }

  // `left`: bytes of the buffer that are not consumed.
  tl::unexpected<fault> damaged(std::size_t left, const char* why) const {
    return bad_input("{}: damaged {} data near byte {}: {}; get the file again", file_->name(), format_, next_ - left,
                     why);
  }

  tl::unexpected<fault> cut_off() const {
    return bad_input("{}: the {} data are cut off: the file ends at byte {}, before they do; get the file again",
                     file_->name(), format_, next_);
  }

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

  result<std::size_t> read(char* to, std::size_t room) override {
    stream_.next_out = reinterpret_cast<unsigned char*>(to);
    stream_.avail_out = static_cast<uInt>(room);
    while (stream_.avail_out > 0) {
      if (stream_.avail_in == 0) {
        auto got = input_.refill();
        if (!got) return got;
        if (*got == 0 && !between_members_ && stream_.avail_out == room) return input_.cut_off();
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
    return room - stream_.avail_out;
  }

 private:
  compressed_input input_;
  z_stream stream_{};
  bool between_members_ = false;
};

class zstd_source final : public byte_source {
 public:
  explicit zstd_source(std::shared_ptr<const input_file> file)
      : input_(std::move(file), "zstd"), context_(ZSTD_createDCtx(), ZSTD_freeDCtx) {
    if (context_ == nullptr) throw std::bad_alloc();
  }

  result<std::size_t> read(char* to, std::size_t room) override {
    ZSTD_outBuffer out{to, room, 0};
    while (out.pos < out.size) {
      bool ended = false;
      if (taken_.pos == taken_.size) {
        auto got = input_.refill();
        if (!got) return got;
        taken_ = {input_.data(), *got, 0};
        ended = *got == 0;
      }
      // Without input there may still be output, but only of a started frame.
      if (ended && !in_frame_) break;
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
  compressed_input input_;
  std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> context_;
  ZSTD_inBuffer taken_{nullptr, 0, 0};
  bool in_frame_ = false;
};

}  // namespace

result<compression> compression_of(const input_file& file) {
  std::array<char, 4> first{};
  if (const auto got = file.read_some(0, std::as_writable_bytes(std::span(first))); !got)
    return tl::unexpected(got.error());
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
