module Sums (total) where

total :: String -> Int
total = sum . map read . words
