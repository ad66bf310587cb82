#include <adjoint/data/log.h>
#include <adjoint/data/log_record.h>

#include <adjoint/core/base/file.h>
#include <adjoint/tests/support/errors.h>
#include <adjoint/tests/support/full_disk.h>
#include <adjoint/tests/support/temp_folder.h>

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

namespace adjoint::data {
namespace {

namespace fs = std::filesystem;

class LogTest : public testing::TempFolder {
 protected:
  /// The file's rows without their times.
  std::vector<std::string> rows() const {
    std::ifstream file(folder / "run" / "scalars.csv");
    std::vector<std::string> all;
    for (std::string row; std::getline(file, row);) all.push_back(row.substr(row.find(',') + 1));
    return all;
  }
};

/// Keeps the values that it receives.
class Memory final : public LogWriter {
 public:
  explicit Memory(std::vector<LogRecord>& records) : records_(records) {}
  void write(const LogRecord& record) override { records_.push_back(record); }

 private:
  std::vector<LogRecord>& records_;
};

TEST_F(LogTest, WritesScalarsAsRowsThatReadBackExactly) {
  Log log(folder / "run");
  log.add_scalar("loss/train", 0.1 + 0.2, 3);
  log.add_scalar("a,\"b\"", std::nan(""), 4);
  log.add_text("note", "no scalar", 5);
  EXPECT_EQ(rows(), (std::vector<std::string>{"step,tag,value", "3,loss/train,0.30000000000000004",
                                              "4,\"a,\"\"b\"\"\",nan"}));  // while the log lives
}

TEST_F(LogTest, GoesOnBehindTheLastWholeRow) {
  { Log(folder / "run").add_scalar("loss", 1, 1); }
  const fs::path path = folder / "run" / "scalars.csv";
  std::ofstream(path, std::ios::app) << "1764000000.0,2,lo";
  { Log(folder / "run").add_scalar("loss", 3, 3); }
  EXPECT_EQ(rows(), (std::vector<std::string>{"step,tag,value", "1,loss,1", "3,loss,3"}));

  fs::resize_file(path, 5);  // killed within the header
  { Log(folder / "run").add_scalar("loss", 4, 4); }
  EXPECT_EQ(rows(), (std::vector<std::string>{"step,tag,value", "4,loss,4"}));
}

TEST_F(LogTest, ASeriesThatGoesBackReplacesWhatWasThere) {
  {
    Log log(folder / "run");
    for (int step = 1; step <= 4; ++step) log.add_scalar("loss", step, step);
    log.add_scalar("a,\"b\"", 0.5, 2);
    log.add_scalar("epoch", 0.5, 1);
    log.add_scalar("once", 7, 0);
  }
  {
    Log log(folder / "run");  // from a checkpoint of step 2
    log.add_scalar("once", 8, 0);
    log.add_scalar("loss", 30, 3);
    log.add_scalar("loss", 31, 3);  // its own rows stay
    log.add_scalar("a,\"b\"", 5, 1);
    log.add_scalar("loss", 20, 2);
    log.add_scalar("new", 1, 1);
  }
  EXPECT_EQ(rows(),
            (std::vector<std::string>{"step,tag,value", "1,loss,1", "2,loss,2", "1,epoch,0.5", "0,once,8", "3,loss,30",
                                      "3,loss,31", "1,\"a,\"\"b\"\"\",5", "2,loss,20", "1,new,1"}));
  {
    Log log(folder / "run");  // anew
    log.add_scalar("loss", 9, 0);
    log.add_scalar("epoch", 9, 2);
  }
  EXPECT_EQ(rows(), (std::vector<std::string>{"step,tag,value", "1,epoch,0.5", "0,once,8", "1,\"a,\"\"b\"\"\",5",
                                              "1,new,1", "0,loss,9", "2,epoch,9"}));
}

TEST_F(LogTest, RowsOfAnothersMakingStay) {
  fs::create_directory(folder / "run");
  const fs::path path = folder / "run" / "scalars.csv";
  const std::string others = "x,loss\n\n1,2\n1,x,loss,1\n1,,loss,1\n,,,\n1,5";
  std::ofstream(path) << "wall_time,step,tag,value\n" << others << ",loss,1\n";
  Log(folder / "run").add_scalar("loss", 2, 5);
  const std::vector<std::uint8_t> bytes = read_file("test", path);
  const std::string text(bytes.begin(), bytes.end());
  EXPECT_EQ(text.find(others.substr(0, others.size() - 3)), std::string("wall_time,step,tag,value\n").size());
  EXPECT_EQ(rows().back(), "5,loss,2");
  EXPECT_EQ(rows().size(), 8U);
}

TEST_F(LogTest, LeavesAnothersFileAlone) {
  fs::create_directory(folder / "run");
  const fs::path path = folder / "run" / "scalars.csv";
  std::ofstream(path) << "epoch,loss\n1,2";
  EXPECT_ERROR(Log(folder / "run"), "csv_writer", "scalars.csv", "epoch,loss");
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  EXPECT_EQ(text.str(), "epoch,loss\n1,2");
}

TEST_F(LogTest, TakesScalarsFromSeveralThreads) {
  Log log(folder / "run");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&log, t] {
      for (int i = 0; i < 100; ++i) log.add_scalar("thread/" + std::to_string(t), i, i);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(rows().size(), 401U);
}

TEST_F(LogTest, LeavesValuesThatAreNotFiniteOutOfHistograms) {
  std::vector<LogRecord> records;
  Log log;
  log.add_writer(std::make_unique<Memory>(records));
  const double infinity = std::numeric_limits<double>::infinity();
  log.add_histogram("h",
                    Tensor::from_vector<double>({infinity, 1.0, std::nan(""), -infinity}, {4}, {.dtype = kFloat64}), 0);
  log.add_histogram("h", Tensor::from_vector<double>({infinity}, {1}, {.dtype = kFloat64}), 1);
  log.add_histogram("h",
                    Tensor::from_vector<double>({-std::numeric_limits<double>::max(), 1e300}, {2}, {.dtype = kFloat64}),
                    2);
  const auto& some = std::get<LogHistogram>(records[0].value);
  EXPECT_EQ(some.count, 1.0);
  EXPECT_EQ(some.max, 1.0);
  EXPECT_EQ(std::get<LogHistogram>(records[1].value).count, 0.0);
  const auto& large = std::get<LogHistogram>(records[2].value);
  EXPECT_EQ(large.buckets.front(), 1.0);
  EXPECT_EQ(large.buckets.back(), 1.0);
}

TEST_F(LogTest, RefusesWhatItCannotHold) {
  Log log(folder / "run");
  EXPECT_ERROR(log.add_scalar("", 1, 1), "Log: a tag must not be empty");
  EXPECT_ERROR(log.add_scalar("a\nb", 1, 1), "Log: a tag", "a\nb");
  for (const char* const text : {"\x80", "a\xc3", "\xc0\x80", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf",
                                 "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xe2\x82", "\xe2\x82z"}) {
    EXPECT_ERROR(log.add_scalar(text, 1, 1), "Log: a tag must be UTF-8");
    EXPECT_ERROR(log.add_text("a", text, 1), "Log: text must be UTF-8", "'a'");
  }
  EXPECT_NO_THROW(log.add_text("\u00e9\ud7ff\ue000\U0010ffff", "\u0800\U00010000\n\u20ac", 1));
  EXPECT_ERROR(log.add_scalar("a", 1, -1), "Log: step", "-1", "'a'");
  EXPECT_ERROR(log.add_writer(nullptr), "Log: a writer");
  EXPECT_ERROR(log.add_image("a", {}, 1), "Log: image must be defined");
  EXPECT_ERROR(log.add_image("a", Tensor::zeros({5, 2, 2}), 1), "Log::add_image: a picture must be", "5");
  EXPECT_ERROR(log.add_histogram("a", {}, 1), "Log: values must be defined");
  EXPECT_ERROR(log.add_audio("a", {}, 1), "Log: audio must be defined");
  EXPECT_ERROR(log.add_audio("a", Tensor::zeros({2, 2, 2}), 1), "Log: audio must be (frames)", "(2, 2, 2)");
  EXPECT_ERROR(log.add_audio("a", Tensor::zeros({2}, {.dtype = kInt32}), 1), "Log: audio", "int32");
  EXPECT_ERROR(log.add_audio("a", Tensor::zeros({0, 2}), 1), "Log: audio must have 1", "got 0");
  EXPECT_ERROR(log.add_audio("a", Tensor::zeros({2}), 1, 0), "Log: sample_rate", "got 0");
  EXPECT_EQ(rows().size(), 1U);
}

TEST_F(LogTest, NamesWhatIsNoFile) {
  EXPECT_ERROR(csv_writer("/dev/null"), "csv_writer", "/dev/null", "regular file");
  EXPECT_ERROR(csv_writer(folder), "csv_writer", folder.c_str());
  std::ofstream(folder / "file") << "x";
  EXPECT_ERROR(Log(folder / "file" / "run"), "Log: cannot make the folder", "file");
}

TEST_F(LogTest, LeavesNoHalfARowWhereTheDiskIsFull) {
  Log log(folder / "run");
  log.add_scalar("loss", 1, 1);
  const auto size = fs::file_size(folder / "run" / "scalars.csv");
  {
    const adjoint::testing::FullDisk full(size + 7);
    EXPECT_ERROR(log.add_scalar("loss", 2, 2), "csv_writer: cannot write", "scalars.csv");
  }
  EXPECT_EQ(fs::file_size(folder / "run" / "scalars.csv"), size);
  log.add_scalar("loss", 3, 3);
  EXPECT_EQ(rows(), (std::vector<std::string>{"step,tag,value", "1,loss,1", "3,loss,3"}));
}

}  // namespace
}  // namespace adjoint::data
