# <name>_avx2.cpp and <name>_avx512.cpp are compiled for that instruction set and chosen at run time
# (core/base/cpu_isa.h), beside <name>_baseline.cpp; all three fuse multiplications and additions where the machine can.
# Other processors than x86-64 have the last alone.
function(adjoint_instruction_sets)
  set(baseline -ffp-contract=fast)
  set(avx2 ${baseline} -mavx2 -mfma)
  set(avx512 ${avx2} -mavx512f -mavx512dq -mavx512bw -mavx512vl -mprefer-vector-width=512)
  foreach(set IN ITEMS baseline avx2 avx512)
    set(files ${ARGN})
    list(FILTER files INCLUDE REGEX "_${set}\\.cpp$")
    if(files)
      # A precompiled header holds for one instruction set.
      set_source_files_properties(${files} PROPERTIES COMPILE_OPTIONS "${${set}}" SKIP_PRECOMPILE_HEADERS ON)
    endif()
  endforeach()
  # Files that core/base/cpu_targets.h compiles for each set at once round every product and every sum. A formula then has
  # the bits of the operators that it is made of.
  set(files ${ARGN})
  list(FILTER files INCLUDE REGEX "^(core/tensor/convert_spans|ops/elementwise/cpu/|ops/softmax/cpu)")
  if(files)
    set_source_files_properties(${files} PROPERTIES COMPILE_OPTIONS -ffp-contract=off)
  endif()
endfunction()

# adjoint_instances(<header> <enumeration> IN <arithmetic>... OF <function>...): a translation unit an arithmetic that
# instantiates the header's function templates for it, made of instance.cu.in. Called from instances.cmake beside them.
function(adjoint_instances header enumeration)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "IN;OF")
  cmake_path(GET header PARENT_PATH folder)
  foreach(arithmetic IN LISTS arg_IN)
    string(REPLACE "tf" "TF" enumerator ${arithmetic})
    string(REPLACE "bfloat" "BFloat" enumerator ${enumerator})
    string(REGEX REPLACE "^float" "Float" enumerator ${enumerator})
    set(instances)
    foreach(function IN LISTS arg_OF)
      set(instance "${function}<${enumeration}::k${enumerator}>")
      string(APPEND instances "template decltype(${instance}) ${instance};\n")
    endforeach()
    set(file ${PROJECT_BINARY_DIR}/instances/${folder}/${arithmetic}.cu)
    configure_file(${PROJECT_SOURCE_DIR}/cmake/instance.cu.in ${file} @ONLY)
    list(APPEND sources ${file})
  endforeach()
  set(sources ${sources} PARENT_SCOPE)
endfunction()

# adjoint_join(<variable>): replaces the list's C++ files by files that include up to ADJOINT_JOIN files of one folder.
# A small file takes most of its compile time for templates that its neighbours instantiate too. Therefore a name in an
# anonymous namespace must be unique in its folder. A file that has compile options of its own is compiled alone, and so
# is one of a folder cuda: each of convolution's kernels has a takes() and a run() there.
function(adjoint_join variable)
  foreach(source IN LISTS ${variable})
    get_source_file_property(options ${source} COMPILE_OPTIONS)
    if(options OR source MATCHES "/cuda/" OR NOT source MATCHES "\\.cpp$")
      list(APPEND joined ${source})
      continue()
    endif()
    cmake_path(GET source PARENT_PATH folder)
    string(REGEX REPLACE "/cpu$" "" folder ${folder})
    math(EXPR part "0${count_${folder}} / ${ADJOINT_JOIN}")
    math(EXPR count_${folder} "0${count_${folder}} + 1")
    string(APPEND text_${folder}_${part} "#include <adjoint/${source}>\n")
    list(APPEND parts ${folder}_${part})
  endforeach()
  list(REMOVE_DUPLICATES parts)
  foreach(part IN LISTS parts)
    set(file ${PROJECT_BINARY_DIR}/joined/${part}.cpp)
    file(CONFIGURE OUTPUT ${file} CONTENT "${text_${part}}")
    list(APPEND joined ${file})
  endforeach()
  set(${variable} ${joined} PARENT_SCOPE)
endfunction()

# adjoint_module(<name> [<module>...]): the folder <name>/ becomes part of the shared library. It may include its own
# headers and those of the modules named after it, as <adjoint/<module>/...>: the build folder holds one link a module, so
# an include that the design forbids does not compile.
function(adjoint_module name)
  set(links ${PROJECT_BINARY_DIR}/include)
  file(MAKE_DIRECTORY ${links}/${name}/adjoint)
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${name} ${links}/${name}/adjoint/${name} SYMBOLIC)

  file(GLOB_RECURSE sources CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}
       ${PROJECT_SOURCE_DIR}/${name}/*.cpp ${PROJECT_SOURCE_DIR}/${name}/*.cu)
  # A folder with its own CMakeLists.txt is a component (AdjointComponent.cmake).
  file(GLOB_RECURSE components CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}
       ${PROJECT_SOURCE_DIR}/${name}/CMakeLists.txt)
  foreach(component IN LISTS components)
    cmake_path(GET component PARENT_PATH component)
    list(FILTER sources EXCLUDE REGEX "^${component}/")
  endforeach()
  if(ADJOINT_WITH_CUDA)
    file(GLOB lists CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${name}/*/instances.cmake)
    foreach(list IN LISTS lists)
      include(${list})
    endforeach()
  else()
    list(FILTER sources EXCLUDE REGEX "/cuda/|\\.cu$")
  endif()
  list(FILTER sources EXCLUDE REGEX "/distributed/(mpi|nccl)/")  # AdjointDistributed.cmake's
  if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
    list(FILTER sources EXCLUDE REGEX "_avx(2|512)\\.cpp$")
  endif()
  adjoint_instruction_sets(${sources})

  set(target adjoint_${name})
  if(ADJOINT_JOIN GREATER 1)
    adjoint_join(sources)
  endif()
  add_library(${target} OBJECT ${sources})
  # GCC warns of a type that holds one from an anonymous namespace of an included file.
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>")
  foreach(module IN ITEMS ${name} ${ARGN})
    target_include_directories(${target} PRIVATE ${links}/${module})
  endforeach()
  target_link_libraries(${target} PRIVATE adjoint_warnings Eigen3::Eigen fmt::fmt nlohmann_json::nlohmann_json)
  # No value changes; nobody reads errno or floating-point traps, and both keep square roots and comparisons from vectorising.
  target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:-fno-math-errno;-fno-trapping-math>")
  if(ADJOINT_WITH_CUDA)
    target_compile_definitions(${target} PRIVATE ADJOINT_WITH_CUDA)
    target_include_directories(${target} SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
    target_compile_options(${target} PRIVATE
      "$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr;--extended-lambda;-Xcompiler=-Wall;--diag-suppress=20012>")
  endif()
  target_compile_definitions(${target} PRIVATE ADJOINT_VERSION="${PROJECT_VERSION}")
  if(NOT BUILD_SHARED_LIBS)
    target_compile_definitions(${target} PRIVATE ADJOINT_STATIC)
  endif()
  # All modules share one precompiled header of the files that nearly every source includes. It includes nothing beyond
  # core, so an include that the design forbids still does not compile.
  if(name STREQUAL core)
    target_precompile_headers(${target} PRIVATE <adjoint/core/precompiled.h>)
  else()
    target_precompile_headers(${target} REUSE_FROM adjoint_core)
  endif()
  target_link_libraries(adjoint PRIVATE $<BUILD_INTERFACE:${target}>)
  target_include_directories(adjoint PUBLIC $<BUILD_INTERFACE:${links}/${name}>)
  set_property(GLOBAL APPEND PROPERTY ADJOINT_MODULES ${name})
endfunction()
