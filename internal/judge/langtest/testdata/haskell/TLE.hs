main :: IO ()
main = print (length (filter (< 0) (iterate (\n -> (n * 7 + 1) `mod` 1000003) (1 :: Int))))
