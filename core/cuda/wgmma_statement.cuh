// The building blocks of wgmma's statements, for wgmma.cuh and wgmma_shared.cuh: for each number of sums per thread,
// half of the columns, their operands and their names.
#pragma once

#define ADJOINT_WGMMA_SUMS_8(i)                                                                               \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), \
      "+f"(d[i + 7])
#define ADJOINT_WGMMA_SUMS_16(i) ADJOINT_WGMMA_SUMS_8(i), ADJOINT_WGMMA_SUMS_8(i + 8)
#define ADJOINT_WGMMA_SUMS_32(i) ADJOINT_WGMMA_SUMS_16(i), ADJOINT_WGMMA_SUMS_16(i + 16)
#define ADJOINT_WGMMA_SUMS_48(i) ADJOINT_WGMMA_SUMS_32(i), ADJOINT_WGMMA_SUMS_16(i + 32)
#define ADJOINT_WGMMA_SUMS_64(i) ADJOINT_WGMMA_SUMS_32(i), ADJOINT_WGMMA_SUMS_32(i + 32)
#define ADJOINT_WGMMA_SUMS_128(i) ADJOINT_WGMMA_SUMS_64(i), ADJOINT_WGMMA_SUMS_64(i + 64)

#define ADJOINT_WGMMA_NAMES_8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define ADJOINT_WGMMA_NAMES_16 \
  ADJOINT_WGMMA_NAMES_8        \
  ", %8, %9, %10, %11, %12, %13, %14, %15"
#define ADJOINT_WGMMA_NAMES_32 \
  ADJOINT_WGMMA_NAMES_16       \
  ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define ADJOINT_WGMMA_NAMES_48 \
  ADJOINT_WGMMA_NAMES_32       \
  ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define ADJOINT_WGMMA_NAMES_64 \
  ADJOINT_WGMMA_NAMES_48       \
  ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define ADJOINT_WGMMA_NAMES_128                                                                  \
  ADJOINT_WGMMA_NAMES_64                                                                         \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"             \
  ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"             \
  ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111" \
  ", %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"

/// A product's statement. `sums`: half the columns. `instruction`: K and types. `factors`: their operands' names.
/// `flag`: the name of the operand that decides if it accumulates. `majors`: for halves, 0 for each operand in shared
/// memory that is K-major.
#define ADJOINT_WGMMA_STATEMENT(columns, sums, instruction, factors, flag, majors)         \
  "{\n.reg .pred accumulate;\nsetp.ne.b32 accumulate, " flag                               \
  ", 0;\n"                                                                                 \
  "wgmma.mma_async.sync.aligned.m64n" #columns instruction " {" ADJOINT_WGMMA_NAMES_##sums \
      "}, " factors ", accumulate, 1, 1" majors ";\n}\n"
