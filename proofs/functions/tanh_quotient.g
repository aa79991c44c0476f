# Made by generate.py from optimized/kernels/{scalar.cpp,avx2_elementary.hpp}.
# tanh_core from 1/4 on: e is exp_core(2 x), E the real exponential.
@D = float<ieee_64, ne>;
e = D(e_);
quotient = D(D(e - 1) / D(e + 1));
near = (e - 1) / (e + 1);
Quotient = (E - 1) / (E + 1);

{ E in [1.64, 5b26] /\ |(e - E) / E| <= 0x1.6bp-47 ->
   |(quotient - near) / near| <= 0x1.9p-52 /\ |(near - Quotient) / Quotient| <= 0x1.6cp-46 }

(near - Quotient) / Quotient -> ((e - E) / E) * (2 / ((e + 1) * (1 - 1 / E))) { E <> 0, E - 1 <> 0, E + 1 <> 0, e + 1 <> 0 };
$ E in (1.7, 1.8, 2, 2.5, 4, 16);
