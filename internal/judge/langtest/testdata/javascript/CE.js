const x = 1;
const y = ;
