// FLAC through libFLAC, which detects damage that libsndfile does not: frames with a wrong checksum, and samples whose
// MD5 differs from the one stored by the encoder.
#include <adjoint/core/base/check.h>
#include <adjoint/data/audio/files/decoder.h>

#include <FLAC/stream_decoder.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <new>
#include <utility>
#include <vector>

namespace adjoint::data::audio {
namespace {

constexpr std::int64_t kMostBlock = 65535;  // frames in a block, a limit of the format

class FlacDecoder final : public Decoder {
 public:
  explicit FlacDecoder(SoundFile sound) : sound_(std::move(sound)), decoder_(::FLAC__stream_decoder_new()) {
    if (decoder_ == nullptr) throw std::bad_alloc();
    ::FLAC__stream_decoder_set_md5_checking(decoder_.get(), sound_.damaged ? 0 : 1);
    std::FILE* const file = ::fdopen(sound_.file.get(), "rb");
    if (file == nullptr) throw std::bad_alloc();
    sound_.file.release();  // libFLAC closes it
    const auto started = ::FLAC__stream_decoder_init_FILE(decoder_.get(), file, write, metadata, error, this);
    if (started == FLAC__STREAM_DECODER_INIT_STATUS_MEMORY_ALLOCATION_ERROR) throw std::bad_alloc();
    const bool begins = started == FLAC__STREAM_DECODER_INIT_STATUS_OK &&
                        ::FLAC__stream_decoder_process_until_end_of_metadata(decoder_.get()) != 0;
    ADJOINT_CHECK(begins && info_.channels >= 1 && info_.sample_rate >= 1 && (damage_ == nullptr || sound_.damaged),
                  "{}: '{}' is damaged: its beginning is not whole", sound_.op, sound_.path);
    total_ = info_.frames;
    if (total_ == 0 || sound_.damaged) info_.frames = -1;
  }

  std::int64_t read(float* samples, std::int64_t frames) override {
    std::int64_t done = 0;
    while (done < frames && (silence_ > 0 || taken_ < held() || decode())) {
      float* const out = samples + done * info_.channels;
      const bool is_silence = silence_ > 0;
      const std::int64_t count = std::min(frames - done, is_silence ? silence_ : held() - taken_);
      if (is_silence) {
        std::fill_n(out, count * info_.channels, 0.0F);
        silence_ -= count;
      } else {
        std::copy_n(block_.data() + taken_ * info_.channels, count * info_.channels, out);
        taken_ += count;
      }
      done += count;
    }
    return done;
  }

  // libFLAC does not report damage to the block in which it finds the frame, so it seeks to a point before that block.
  void seek(std::int64_t frame) override {
    if (frame > kMostBlock && total_ > 0 && !sound_.damaged) {
      seeking_ = true;
      const bool found =
          ::FLAC__stream_decoder_seek_absolute(decoder_.get(), static_cast<FLAC__uint64>(frame - kMostBlock)) != 0;
      seeking_ = false;
      damage_ = nullptr;
      block_.clear();
      taken_ = 0;
      ADJOINT_CHECK(found, "{}: '{}' is damaged: frame {} cannot be reached", sound_.op, sound_.path, frame);
    }
    std::vector<float> passed(static_cast<std::size_t>(std::min(frame, kMostBlock) * info_.channels));
    for (std::int64_t left = frame - (next_ - (held() - taken_) - silence_); left > 0;) {
      const std::int64_t count = read(passed.data(), std::min(left, kMostBlock));
      ADJOINT_CHECK(count > 0, "{}: '{}' is damaged: frame {} cannot be reached", sound_.op, sound_.path, frame);
      left -= count;
    }
  }

  void check_whole() override {
    ADJOINT_CHECK(total_ != 0 || end_ == sound_.size || sound_.damaged, "{}: '{}' is damaged: {}", sound_.op,
                  sound_.path, kNoEnd);
    ADJOINT_CHECK(::FLAC__stream_decoder_finish(decoder_.get()) != 0 || sound_.damaged,
                  "{}: '{}' is damaged: its samples are not those that were written, whose MD5 is another", sound_.op,
                  sound_.path);
  }

 private:
  struct Delete {
    void operator()(FLAC__StreamDecoder* decoder) const { ::FLAC__stream_decoder_delete(decoder); }
  };

  std::int64_t held() const { return static_cast<std::int64_t>(block_.size()) / info_.channels; }

  /// Decodes until there are more samples; returns false at the end.
  bool decode() {
    block_.clear();
    taken_ = 0;
    while (block_.empty() && silence_ == 0) {
      if (state() == FLAC__STREAM_DECODER_END_OF_STREAM || (total_ > 0 && next_ >= total_)) return false;
      writes_ = 0;
      const bool goes_on = ::FLAC__stream_decoder_process_single(decoder_.get()) != 0;
      if (out_of_memory_ || state() == FLAC__STREAM_DECODER_MEMORY_ALLOCATION_ERROR) throw std::bad_alloc();
      if (writes_ > 1) found("a block is missing");
      if (!goes_on) found("it cannot be decoded");
      ADJOINT_CHECK(damage_ == nullptr || sound_.damaged, "{}: '{}' is damaged: {}, behind {}{} frames", sound_.op,
                    sound_.path, damage_, next_, total_ > 0 ? fmt::format(" of {}", total_) : "");
      if (writes_ > 1) decode_again();
      if (!goes_on && block_.empty()) return false;
    }
    return true;
  }

  /// For a missing block libFLAC returns silence and, in version 1.4, also for the block after it.
  void decode_again() {
    const std::size_t samples = last_samples_;
    const std::int64_t frames = static_cast<std::int64_t>(samples) / info_.channels;
    if (samples == 0) return;
    block_.resize(block_.size() - samples);
    next_ -= frames;
    const std::size_t before = block_.size();
    if (::FLAC__stream_decoder_seek_absolute(decoder_.get(), static_cast<FLAC__uint64>(next_)) == 0) {
      ::FLAC__stream_decoder_flush(decoder_.get());
    }
    if (block_.size() > before) return;
    block_.resize(before + samples);
    next_ += frames;
  }

  FLAC__StreamDecoderState state() const { return ::FLAC__stream_decoder_get_state(decoder_.get()); }

  /// Records only the first damage, which causes the rest.
  void found(const char* damage) {
    if (damage_ == nullptr) damage_ = damage;
  }

  /// Takes a block. Returns false if the blocks number the frames beyond any plausible end.
  bool take(const FLAC__Frame& frame, const FLAC__int32* const* channels) {
    constexpr std::size_t kMostSamples = 1 << 24;
    const FLAC__FrameHeader& header = frame.header;
    const auto first = static_cast<std::int64_t>(header.number.sample_number);
    const auto count = static_cast<std::int64_t>(header.blocksize);
    if (seeking_) {
      next_ = first + count;
      return true;
    }
    ++writes_;
    last_samples_ = 0;
    if (header.channels != info_.channels || header.bits_per_sample != bits_ || header.sample_rate != info_.sample_rate)
      found("a block is of another form");
    if (first != next_) found("blocks do not follow one another");
    if (total_ > 0 && first + count > total_) found("a block is behind the end");
    const bool fits = header.channels == info_.channels && (block_.empty() ? first >= next_ : first == next_) &&
                      (total_ == 0 || first + count <= total_);
    if (!fits || (damage_ != nullptr && !sound_.damaged)) return block_.size() <= kMostSamples;
    if (block_.empty()) silence_ = first - next_;
    next_ = first + count;
    last_samples_ = static_cast<std::size_t>(count * info_.channels);
    block_.reserve(block_.size() + last_samples_);
    const float scale = std::ldexp(1.0F, 1 - static_cast<int>(header.bits_per_sample));
    for (std::int64_t i = 0; i < count; ++i) {
      for (std::int64_t c = 0; c < info_.channels; ++c) block_.push_back(static_cast<float>(channels[c][i]) * scale);
    }
    FLAC__uint64 end = 0;
    if (::FLAC__stream_decoder_get_decode_position(decoder_.get(), &end) != 0) end_ = end;
    return block_.size() <= kMostSamples;
  }

  static FLAC__StreamDecoderWriteStatus write(const FLAC__StreamDecoder*, const FLAC__Frame* frame,
                                              const FLAC__int32* const* channels, void* self) {
    auto& decoder = *static_cast<FlacDecoder*>(self);
    bool goes_on = false;
    try {
      goes_on = decoder.take(*frame, channels);
    } catch (...) {  // an exception must not cross libFLAC
      decoder.out_of_memory_ = true;
    }
    return goes_on ? FLAC__STREAM_DECODER_WRITE_STATUS_CONTINUE : FLAC__STREAM_DECODER_WRITE_STATUS_ABORT;
  }

  static void metadata(const FLAC__StreamDecoder*, const FLAC__StreamMetadata* block, void* self) {
    if (block->type != FLAC__METADATA_TYPE_STREAMINFO) return;
    auto& decoder = *static_cast<FlacDecoder*>(self);
    const FLAC__StreamMetadata_StreamInfo& info = block->data.stream_info;
    decoder.info_ = {info.sample_rate, info.channels, static_cast<std::int64_t>(info.total_samples)};
    decoder.bits_ = info.bits_per_sample;
  }

  static void error(const FLAC__StreamDecoder*, FLAC__StreamDecoderErrorStatus status, void* self) {
    static_cast<FlacDecoder*>(self)->found(
        status == FLAC__STREAM_DECODER_ERROR_STATUS_FRAME_CRC_MISMATCH ? "a block's checksum is another"
        : status == FLAC__STREAM_DECODER_ERROR_STATUS_BAD_HEADER       ? "a block's header is not whole"
                                                                       : "a block does not begin where it should");
  }

  SoundFile sound_;
  std::uint32_t bits_ = 0;        // of a sample
  std::int64_t total_ = 0;        // frames stated by the file; 0 if unknown
  const char* damage_ = nullptr;  // the damage found
  bool seeking_ = false;          // blocks are skipped
  bool out_of_memory_ = false;
  std::vector<float> block_;      // the last block or blocks; `taken_` of its frames have been read
  int writes_ = 0;                // blocks that arrived in one call
  std::size_t last_samples_ = 0;  // in the last one
  std::int64_t taken_ = 0;
  std::int64_t silence_ = 0;  // frames in place of missing blocks, before block_
  std::int64_t next_ = 0;     // the frame after block_
  std::uint64_t end_ = 0;     // its position in the file
  std::unique_ptr<FLAC__StreamDecoder, Delete> decoder_;
};

}  // namespace

std::unique_ptr<Decoder> flac_decoder(SoundFile sound) { return std::make_unique<FlacDecoder>(std::move(sound)); }

}  // namespace adjoint::data::audio
