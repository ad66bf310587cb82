#include <adjoint/data/progress.h>

#include <adjoint/tests/support/errors.h>

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

namespace adjoint::data {
namespace {

/// A file in memory, and the screen that a terminal would show for its escape codes.
class Paper {
 public:
  Paper() : file(std::tmpfile()) {}
  ~Paper() { std::fclose(file); }
  Paper(const Paper&) = delete;
  Paper& operator=(const Paper&) = delete;

  std::string text() const {
    std::string all;
    const long end = std::ftell(file);
    std::rewind(file);
    for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) all += static_cast<char>(c);
    std::fseek(file, end, SEEK_SET);
    return all;
  }

  /// Lines joined by newlines, the one of the cursor last.
  std::string screen() const {
    std::vector<std::string> lines{""};
    std::size_t row = 0;
    bool overwrite = false;
    const std::string all = text();
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all.compare(i, 3, "\x1b[K") == 0) {
        EXPECT_TRUE(overwrite) << "a line is wiped from its first column on";
        lines[row].clear();
        overwrite = false;
        i += 2;
      } else if (all.compare(i, 3, "\x1b[A") == 0) {
        --row;
        i += 2;
      } else if (all[i] == '\r') {
        overwrite = true;
      } else if (all[i] == '\n') {
        if (++row == lines.size()) lines.emplace_back();
        overwrite = false;
      } else {
        EXPECT_FALSE(overwrite) << "text is written over text";
        lines[row] += all[i];
      }
    }
    std::string joined;
    for (std::size_t i = 0; i <= row; ++i) joined += (i > 0 ? "\n" : "") + lines[i];
    return joined;
  }

  std::FILE* file;
  double seconds = 0.0;

  ProgressOptions options(bool terminal, double interval) {
    return {.out = file, .terminal = terminal, .columns = 80, .interval = interval, .clock = [this] {
              return seconds;
            }};
  }
};

std::string repeated(const std::string& text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

TEST(Progress, ShowsRateTimeLeftAndMetricsAsLines) {
  Paper paper;
  {
    ProgressOptions options = paper.options(false, 10.0);
    options.description = "train";
    options.unit = "images";
    Progress progress(400, options);
    paper.seconds = 5.0;
    progress.update(50, {{"loss", 0.5}});  // too early for a line
    EXPECT_EQ(paper.text(), "");
    paper.seconds = 10.0;
    progress.update(50, {{"loss", 0.25}, {"psnr", 31.24}});
    EXPECT_EQ(paper.text(), "train 100/400  0:10  10 images/s  0:30 left  loss 0.25  psnr 31.24\n");
    paper.seconds = 11.0;
    progress.update(300);
    EXPECT_EQ(progress.count(), 400);
  }
  EXPECT_EQ(paper.text(),
            "train 100/400  0:10  10 images/s  0:30 left  loss 0.25  psnr 31.24\n"
            "train 400/400  0:11  36.4 images/s  loss 0.25  psnr 31.24\n");
}

TEST(Progress, CountsOnlyItsOwnStepsAfterAResume) {
  Paper paper;
  ProgressOptions options = paper.options(false, 0.0);
  options.initial = 7200;
  Progress progress(10800, options);
  paper.seconds = 1.0;
  progress.update();
  EXPECT_EQ(paper.text(), " 7201/10800  0:01  1 it/s  59:59 left\n");
}

TEST(Progress, DrawsABarThatFillsInEighths) {
  Paper paper;
  {
    Progress progress(16, paper.options(true, 0.0));
    paper.seconds = 2.0;
    progress.update(5);
    EXPECT_EQ(paper.screen(),
              " 5/16 │" + repeated("█", 12) + "▌" + std::string(27, ' ') + "│ 0:02  2.5 it/s  0:05 left");
    paper.seconds = 4.0;
    progress.update(11);
  }
  EXPECT_EQ(paper.screen(), "16/16 │" + repeated("█", 40) + "│ 0:04  4 it/s\n");
}

TEST(Progress, NestedBarsHaveALineEachAndLeaveTheOutermost) {
  Paper paper;
  std::optional<Progress> epochs(std::in_place, 0, paper.options(true, 0.0));
  epochs->update(0);
  for (int epoch = 1; epoch <= 2; ++epoch) {
    {
      Progress steps(0, paper.options(true, 0.0));
      paper.seconds += 1.0;
      steps.update(3);
      const std::string outer = epoch == 1 ? "0  0:01" : "1  0:02  0.5 it/s";
      EXPECT_EQ(paper.screen(), repeated("saved\n", epoch - 1) + outer + "\n3  0:01  3 it/s");
      steps.print("saved");
      EXPECT_EQ(paper.screen(), repeated("saved\n", epoch) + outer + "\n3  0:01  3 it/s");
    }
    epochs->update();
  }
  EXPECT_EQ(paper.screen(), "saved\nsaved\n2  0:02  1 it/s");
  epochs.reset();
  EXPECT_EQ(paper.screen(), "saved\nsaved\n2  0:02  1 it/s\n");
}

TEST(Progress, KeepsLinesWithinATerminal) {
  Paper paper;
  ProgressOptions options = paper.options(true, 0.0);
  options.columns = 20;
  options.description = "Übertragung der Gewichte";
  Progress progress(10, options);
  progress.update();
  EXPECT_EQ(paper.screen(), "Übertragung der Gew");
}

TEST(Progress, WideCharactersTakeTheirColumns) {
  const auto line = [](const std::string& description, int columns) {
    Paper paper;
    ProgressOptions options = paper.options(true, 0.0);
    options.columns = columns;
    options.description = description;
    Progress progress(0, options);
    progress.update();
    return paper.screen();
  };
  EXPECT_EQ(line("訓練データ", 20), "訓練データ 1  0:00");  // 10 + 8 columns
  EXPECT_EQ(line("訓練データ", 12), "訓練データ ");
  EXPECT_EQ(line("訓練データ", 11), "訓練データ");
  EXPECT_EQ(line("訓練データ", 10), "訓練デー");            // half a character does not fit
  EXPECT_EQ(line("e\u0301a\u0308", 4), "e\u0301a\u0308 ");  // accents need no column
  EXPECT_EQ(line("🎈🎈", 5), "🎈🎈");
  EXPECT_EQ(line("\u2764\ufe0f\u2764\ufe0f", 5), "\u2764\ufe0f\u2764\ufe0f");
  EXPECT_EQ(line("\u2764\ufe0f\u2764\ufe0f", 4), "\u2764\ufe0f\u2764");
  EXPECT_EQ(line("\xff\xc3", 20), "\xff\xc3 1  0:00");

  Paper paper;
  ProgressOptions options = paper.options(true, 0.0);
  options.columns = 40;
  options.description = "訓練";
  Progress progress(10, options);
  progress.update(5);
  EXPECT_EQ(paper.screen(), "訓練  5/10 │" + repeated("█", 10) + "▌" + std::string(10, ' ') + "│ 0:00");  // 39 columns
}

TEST(Progress, NewlinesInNamesAreSpaces) {
  for (const bool terminal : {false, true}) {
    Paper paper;
    ProgressOptions options = paper.options(terminal, 0.0);
    options.description = "first\nsecond\r\tthird\x1b[A\x7f\u0085\u2028end";
    options.unit = "a\nb";
    Progress progress(0, options);
    paper.seconds = 1.0;
    progress.update(1, {{"lo\nss", 0.5}});
    EXPECT_EQ(paper.screen().substr(0, 76),
              "first second  third [A   end 1  0:01  1 a b/s  lo ss 0.5" + std::string(terminal ? "" : "\n"));
  }
}

TEST(Progress, WaitsForItsInterval) {
  Paper paper;
  Progress progress(1000, paper.options(true, 0.1));
  for (int i = 0; i < 1000; ++i) progress.update();
  EXPECT_EQ(paper.text(), "");
}

TEST(Progress, RefusesCountsOutOfRange) {
  EXPECT_ERROR(Progress(-1), "Progress: total", "-1");
  EXPECT_ERROR(Progress(5, {.initial = 6}), "Progress: initial", "5", "6");
  Progress progress(5, {.interval = 1e9});
  EXPECT_ERROR(progress.update(-2), "Progress: steps", "-2");
}

}  // namespace
}  // namespace adjoint::data
