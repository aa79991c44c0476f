// What the AVX-512 units call, by the functions of avx512.hpp. Some of the names are functions in immintrin.h, some macros.
#pragma once

#include "tests/emulated/avx512.hpp"

#undef _mm256_mask_mov_epi16
#define _mm256_mask_mov_epi16 kvcert::emulated::mask_mov_epi16
#undef _mm256_mask_storeu_epi16
#define _mm256_mask_storeu_epi16 kvcert::emulated::mask_storeu_epi16
#undef _mm256_maskz_loadu_epi16
#define _mm256_maskz_loadu_epi16 kvcert::emulated::maskz_loadu_epi16
#undef _mm512_abs_ps
#define _mm512_abs_ps kvcert::emulated::abs_ps
#undef _mm512_add_epi32
#define _mm512_add_epi32 kvcert::emulated::add_epi32
#undef _mm512_add_epi64
#define _mm512_add_epi64 kvcert::emulated::add_epi64
#undef _mm512_add_pd
#define _mm512_add_pd kvcert::emulated::add_pd
#undef _mm512_add_ps
#define _mm512_add_ps kvcert::emulated::add_ps
#undef _mm512_and_ps
#define _mm512_and_ps kvcert::emulated::and_ps
#undef _mm512_and_si512
#define _mm512_and_si512 kvcert::emulated::and_si512
#undef _mm512_castpd_ps
#define _mm512_castpd_ps kvcert::emulated::castpd_ps
#undef _mm512_castpd_si512
#define _mm512_castpd_si512 kvcert::emulated::castpd_si512
#undef _mm512_castps256_ps512
#define _mm512_castps256_ps512 kvcert::emulated::castps256_ps512
#undef _mm512_castps512_ps256
#define _mm512_castps512_ps256 kvcert::emulated::castps512_ps256
#undef _mm512_castps_pd
#define _mm512_castps_pd kvcert::emulated::castps_pd
#undef _mm512_castps_si512
#define _mm512_castps_si512 kvcert::emulated::castps_si512
#undef _mm512_castsi512_pd
#define _mm512_castsi512_pd kvcert::emulated::castsi512_pd
#undef _mm512_castsi512_ps
#define _mm512_castsi512_ps kvcert::emulated::castsi512_ps
#undef _mm512_cmp_pd_mask
#define _mm512_cmp_pd_mask(a, b, predicate) kvcert::emulated::cmp_pd_mask<predicate>(a, b)
#undef _mm512_cmp_ps_mask
#define _mm512_cmp_ps_mask(a, b, predicate) kvcert::emulated::cmp_ps_mask<predicate>(a, b)
#undef _mm512_cmpeq_epi32_mask
#define _mm512_cmpeq_epi32_mask kvcert::emulated::cmpeq_epi32_mask
#undef _mm512_cmplt_epi32_mask
#define _mm512_cmplt_epi32_mask kvcert::emulated::cmplt_epi32_mask
#undef _mm512_cmpneq_epi32_mask
#define _mm512_cmpneq_epi32_mask kvcert::emulated::cmpneq_epi32_mask
#undef _mm512_cvtepi32_epi16
#define _mm512_cvtepi32_epi16 kvcert::emulated::cvtepi32_epi16
#undef _mm512_cvtepi32_ps
#define _mm512_cvtepi32_ps kvcert::emulated::cvtepi32_ps
#undef _mm512_cvtepi8_epi32
#define _mm512_cvtepi8_epi32 kvcert::emulated::cvtepi8_epi32
#undef _mm512_cvtepu16_epi32
#define _mm512_cvtepu16_epi32 kvcert::emulated::cvtepu16_epi32
#undef _mm512_cvtpd_ps
#define _mm512_cvtpd_ps kvcert::emulated::cvtpd_ps
#undef _mm512_cvtph_ps
#define _mm512_cvtph_ps kvcert::emulated::cvtph_ps
#undef _mm512_cvtps_epi32
#define _mm512_cvtps_epi32 kvcert::emulated::cvtps_epi32
#undef _mm512_cvtps_pd
#define _mm512_cvtps_pd kvcert::emulated::cvtps_pd
#undef _mm512_cvtps_ph
#define _mm512_cvtps_ph(a, rounding) kvcert::emulated::cvtps_ph<rounding>(a)
#undef _mm512_cvtss_f32
#define _mm512_cvtss_f32 kvcert::emulated::cvtss_f32
#undef _mm512_div_pd
#define _mm512_div_pd kvcert::emulated::div_pd
#undef _mm512_div_ps
#define _mm512_div_ps kvcert::emulated::div_ps
#undef _mm512_extractf32x8_ps
#define _mm512_extractf32x8_ps kvcert::emulated::extractf32x8_ps
#undef _mm512_fmadd_pd
#define _mm512_fmadd_pd kvcert::emulated::fmadd_pd
#undef _mm512_fmadd_ps
#define _mm512_fmadd_ps kvcert::emulated::fmadd_ps
#undef _mm512_fnmadd_pd
#define _mm512_fnmadd_pd kvcert::emulated::fnmadd_pd
#undef _mm512_insertf32x8
#define _mm512_insertf32x8 kvcert::emulated::insertf32x8
#undef _mm512_load_ps
#define _mm512_load_ps kvcert::emulated::loadu_ps
#undef _mm512_loadu_ps
#define _mm512_loadu_ps kvcert::emulated::loadu_ps
#undef _mm512_mask3_fmadd_ps
#define _mm512_mask3_fmadd_ps kvcert::emulated::mask3_fmadd_ps
#undef _mm512_mask_add_ps
#define _mm512_mask_add_ps kvcert::emulated::mask_add_ps
#undef _mm512_mask_cmp_ps_mask
#define _mm512_mask_cmp_ps_mask(mask, a, b, predicate) static_cast<__mmask16>((mask) & kvcert::emulated::cmp_ps_mask<predicate>(a, b))
#undef _mm512_mask_cvtepi32_storeu_epi8
#define _mm512_mask_cvtepi32_storeu_epi8 kvcert::emulated::mask_cvtepi32_storeu_epi8
#undef _mm512_mask_i64gather_ps
#define _mm512_mask_i64gather_ps kvcert::emulated::mask_i64gather_ps
#undef _mm512_mask_max_ps
#define _mm512_mask_max_ps kvcert::emulated::mask_max_ps
#undef _mm512_mask_mov_epi32
#define _mm512_mask_mov_epi32 kvcert::emulated::mask_mov_epi32
#undef _mm512_mask_mov_pd
#define _mm512_mask_mov_pd kvcert::emulated::mask_mov_pd
#undef _mm512_mask_mov_ps
#define _mm512_mask_mov_ps kvcert::emulated::mask_mov_ps
#undef _mm512_mask_storeu_ps
#define _mm512_mask_storeu_ps kvcert::emulated::mask_storeu_ps
#undef _mm512_mask_sub_epi32
#define _mm512_mask_sub_epi32 kvcert::emulated::mask_sub_epi32
#undef _mm512_maskz_div_ps
#define _mm512_maskz_div_ps kvcert::emulated::maskz_div_ps
#undef _mm512_maskz_loadu_ps
#define _mm512_maskz_loadu_ps kvcert::emulated::maskz_loadu_ps
#undef _mm512_maskz_sub_ps
#define _mm512_maskz_sub_ps kvcert::emulated::maskz_sub_ps
#undef _mm512_max_ps
#define _mm512_max_ps kvcert::emulated::max_ps
#undef _mm512_min_ps
#define _mm512_min_ps kvcert::emulated::min_ps
#undef _mm512_movepi32_mask
#define _mm512_movepi32_mask kvcert::emulated::movepi32_mask
#undef _mm512_mul_pd
#define _mm512_mul_pd kvcert::emulated::mul_pd
#undef _mm512_mul_ps
#define _mm512_mul_ps kvcert::emulated::mul_ps
#undef _mm512_mullo_epi64
#define _mm512_mullo_epi64 kvcert::emulated::mullo_epi64
#undef _mm512_or_ps
#define _mm512_or_ps kvcert::emulated::or_ps
#undef _mm512_or_si512
#define _mm512_or_si512 kvcert::emulated::or_si512
#undef _mm512_permutexvar_ps
#define _mm512_permutexvar_ps kvcert::emulated::permutexvar_ps
#undef _mm512_reduce_max_ps
#define _mm512_reduce_max_ps kvcert::emulated::reduce_max_ps
#undef _mm512_roundscale_ps
#define _mm512_roundscale_ps(a, rounding) kvcert::emulated::round_to_integer_ps<rounding>(a)
#undef _mm512_set1_epi32
#define _mm512_set1_epi32 kvcert::emulated::set1_epi32
#undef _mm512_set1_epi64
#define _mm512_set1_epi64 kvcert::emulated::set1_epi64
#undef _mm512_set1_pd
#define _mm512_set1_pd kvcert::emulated::set1_pd
#undef _mm512_set1_ps
#define _mm512_set1_ps kvcert::emulated::set1_ps
#undef _mm512_setr_epi32
#define _mm512_setr_epi32 kvcert::emulated::setr_epi32
#undef _mm512_setr_epi64
#define _mm512_setr_epi64 kvcert::emulated::setr_epi64
#undef _mm512_setzero_ps
#define _mm512_setzero_ps kvcert::emulated::setzero_ps
#undef _mm512_setzero_si512
#define _mm512_setzero_si512 kvcert::emulated::setzero_si512
#undef _mm512_shuffle_f32x4
#define _mm512_shuffle_f32x4 kvcert::emulated::shuffle_f32x4
#undef _mm512_shuffle_ps
#define _mm512_shuffle_ps kvcert::emulated::shuffle_ps
#undef _mm512_slli_epi32
#define _mm512_slli_epi32 kvcert::emulated::slli_epi32
#undef _mm512_slli_epi64
#define _mm512_slli_epi64 kvcert::emulated::slli_epi64
#undef _mm512_srli_epi32
#define _mm512_srli_epi32 kvcert::emulated::srli_epi32
#undef _mm512_store_ps
#define _mm512_store_ps kvcert::emulated::storeu_ps
#undef _mm512_storeu_ps
#define _mm512_storeu_ps kvcert::emulated::storeu_ps
#undef _mm512_sub_pd
#define _mm512_sub_pd kvcert::emulated::sub_pd
#undef _mm512_sub_ps
#define _mm512_sub_ps kvcert::emulated::sub_ps
#undef _mm512_testn_epi32_mask
#define _mm512_testn_epi32_mask kvcert::emulated::testn_epi32_mask
#undef _mm512_unpackhi_pd
#define _mm512_unpackhi_pd kvcert::emulated::unpackhi_pd
#undef _mm512_unpacklo_pd
#define _mm512_unpacklo_pd kvcert::emulated::unpacklo_pd
#undef _mm_maskz_loadu_epi8
#define _mm_maskz_loadu_epi8 kvcert::emulated::maskz_loadu_epi8
