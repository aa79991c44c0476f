# Made by generate.py from optimized/kernels/{scalar.cpp,avx2_elementary.hpp}.
# tanh_core below 1/4, every operation rounded: z, the square of a binary32, is exact, and so is the start of what remains,
# series = x + x * zp. P: without roundings.
@D = float<ieee_64, ne>;
@S = float<ieee_32, ne>;
x = S(x_);
square = D(x * x);
z = D(z_);
p0 = 1360510649948625b-61;
p1 = D(D(p0 * z) + -6713851087910371b-62);
P1 = p0 * z + -6713851087910371b-62;
p2 = D(D(p1 * z) + 258840103791599b-56);
P2 = P1 * z + 258840103791599b-56;
p3 = D(D(p2 * z) + -5109307421409853b-59);
P3 = P2 * z + -5109307421409853b-59;
p4 = D(D(p3 * z) + 3151725453510781b-57);
P4 = P3 * z + 3151725453510781b-57;
p5 = D(D(p4 * z) + -1944411267690119b-55);
P5 = P4 * z + -1944411267690119b-55;
p6 = D(D(p5 * z) + 4803839602528529b-55);
P6 = P5 * z + 4803839602528529b-55;
p7 = D(D(p6 * z) + -6004799503160661b-54);
P7 = P6 * z + -6004799503160661b-54;
zp = D(z * p7);

{ (|x| in [1b-149, 0.25] -> square - x * x in [0, 0])
   /\ (z in [0, 0.0625] -> |zp - z * P7| <= 0x1p-57 /\ zp in [-0.0209, 0]) }
